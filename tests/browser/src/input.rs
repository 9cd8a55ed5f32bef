//! Mouse and keys.

use serde_json::json;

use crate::page::{Page, quoted};

/// The part of an element that is within the window, and within all surrounding elements that clip their content.
const PART: &str = "(element) => {
    const part = {left: 0, top: 0, right: document.documentElement.clientWidth, bottom: innerHeight};
    const rects = [element.getBoundingClientRect()];
    for (let around = element.parentElement; around && around !== document.body; around = around.parentElement) {
        if (getComputedStyle(around).overflow !== 'visible') rects.push(around.getBoundingClientRect());
    }
    for (const rect of rects) {
        part.left = Math.max(part.left, rect.left);
        part.top = Math.max(part.top, rect.top);
        part.right = Math.min(part.right, rect.right);
        part.bottom = Math.min(part.bottom, rect.bottom);
    }
    return part;
}";

impl Page {
    /// Whether the first element that matches is wholly visible without scrolling.
    pub async fn is_in_view(&self, query: &str) -> bool {
        self.eval(&in_view(query)).await
    }

    /// Clicks on the first element that matches, once no other element covers it.
    pub async fn click(&self, query: &str) {
        // The element must stand still for a moment, because a click would miss a moving element.
        let find = format!(
            "(async () => {{
                const find = () => {{
                    const element = {};
                    if (!element || element.disabled) return null;
                    element.scrollIntoView({{block: 'nearest', inline: 'nearest', behavior: 'instant'}});
                    const {{left, right, top, bottom}} = ({PART})(element);
                    const point = [(left + right) / 2, (top + bottom) / 2];
                    return element.contains(document.elementFromPoint(...point)) ? point : null;
                }};
                const before = find();
                await new Promise((then) => setTimeout(then, 50));
                const point = find();
                return String(point) === String(before) ? point : null;
            }})()",
            first_shown(query)
        );
        let point = self.until_value(&find, Option::is_some).await;
        let (x, y): (f64, f64) = point.expect("a point to click on");
        self.mouse("mouseMoved", x, y, 0, 0).await;
        self.mouse("mousePressed", x, y, 1, 1).await;
        self.mouse("mouseReleased", x, y, 0, 1).await;
    }

    /// Moves the mouse to the middle of the first element that matches.
    pub async fn hover(&self, query: &str) {
        let (x, y) = self.point(query, 0.5).await;
        self.mouse("mouseMoved", x, y, 0, 0).await;
    }

    /// Drags the mouse over an element from one share of its width to another.
    pub async fn drag(&self, query: &str, from: f64, to: f64) {
        let (x, y) = self.point(query, from).await;
        self.mouse("mouseMoved", x, y, 0, 0).await;
        self.mouse("mousePressed", x, y, 1, 1).await;
        for fifths in 1..=5 {
            let share = from + (to - from) * f64::from(fifths) / 5.0;
            let (x, y) = self.point(query, share).await;
            self.mouse("mouseMoved", x, y, 1, 0).await;
        }
        let (x, y) = self.point(query, to).await;
        self.mouse("mouseReleased", x, y, 0, 1).await;
    }

    /// A point in the middle of an element's height, at a share of its width, once the element is shown.
    async fn point(&self, query: &str, share: f64) -> (f64, f64) {
        self.until_shown(query).await;
        self.eval(&format!(
            "((element) => {{
                element.scrollIntoView({{block: 'nearest', behavior: 'instant'}});
                const {{x, y, width, height}} = element.getBoundingClientRect();
                return [x + width * {share}, y + height / 2];
            }})({})",
            first_shown(query)
        ))
        .await
    }

    /// Gives an element the focus, as the Tab key would.
    pub async fn focus(&self, query: &str) {
        self.until_shown(query).await;
        self.run(&format!("$({}).focus()", quoted(query))).await;
    }

    /// Types a text into the element that has the focus.
    pub async fn type_text(&self, text: &str) {
        for character in text.chars() {
            let text = json!({"text": character.to_string()});
            self.call("Input.insertText", text).await;
        }
    }

    /// Presses a key, named as in `KeyboardEvent.key`, with an optional prefix `Shift+` or `Control+`.
    pub async fn press(&self, key: &str) {
        let (key, modifiers) = match key.split_once('+') {
            Some(("Shift", key)) => (key, 8),
            Some(("Control", key)) => (key, 2),
            _ => (key, 0),
        };
        let (code, number, text) = match key {
            "Tab" => (key, 9, None),
            "Enter" => (key, 13, Some("\r")),
            "Escape" => (key, 27, None),
            "End" => (key, 35, None),
            "ArrowLeft" => (key, 37, None),
            "ArrowUp" => (key, 38, None),
            "ArrowRight" => (key, 39, None),
            "ArrowDown" => (key, 40, None),
            "k" => ("KeyK", 75, None),
            "/" | "?" => ("Slash", 191, Some(key)),
            _ => panic!("no key is named {key}"),
        };
        let mut event = json!({
            "type": "rawKeyDown", "key": key, "code": code, "modifiers": modifiers,
            "windowsVirtualKeyCode": number, "nativeVirtualKeyCode": number,
        });
        if let Some(text) = text {
            event["type"] = "keyDown".into();
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", event.clone()).await;
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", event).await;
    }

    async fn mouse(&self, kind: &str, x: f64, y: f64, held: i64, clicks: i64) {
        let button = if held + clicks > 0 { "left" } else { "none" };
        let event = json!({
            "type": kind, "x": x, "y": y, "button": button, "buttons": held, "clickCount": clicks,
        });
        self.call("Input.dispatchMouseEvent", event).await;
    }
}

/// The expression of [`Page::is_in_view`].
pub fn in_view(query: &str) -> String {
    format!(
        "((element) => {{
            if (!element) return false;
            const [{{left, right, top, bottom}}, part] = [element.getBoundingClientRect(), ({PART})(element)];
            return [left - part.left, part.right - right, top - part.top, part.bottom - bottom].every((over) => Math.abs(over) <= 1);
        }})({})",
        first_shown(query)
    )
}

/// An expression: the first element that matches and takes up space.
fn first_shown(query: &str) -> String {
    let query = quoted(query);
    format!("$$({query}).find((element) => element.getClientRects().length > 0)")
}
