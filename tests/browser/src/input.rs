//! Mouse and keys.

use serde::Deserialize;
use serde_json::json;

use crate::page::{Page, quoted};

/// Where an element is shown, in CSS pixels from the upper left corner of the window.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[allow(missing_docs, reason = "as in the DOM")]
pub struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// The part of an element that is seen: within the window, and within what cuts it off.
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
    /// Where the first element that matches is shown. Panics if none is.
    pub async fn rect(&self, query: &str) -> Rect {
        let rect = self
            .rects(query)
            .await
            .into_iter()
            .find(|rect| rect.width > 0.0);
        rect.unwrap_or_else(|| panic!("{query} is not shown"))
    }

    /// Where the elements that match are shown.
    pub async fn rects(&self, query: &str) -> Vec<Rect> {
        let rect =
            "(({x, y, width, height}) => ({x, y, width, height}))(element.getBoundingClientRect())";
        self.each(query, rect).await
    }

    /// Whether all of the first element that matches is seen without scrolling: it is in the window, and nothing around
    /// it cuts a part off.
    pub async fn is_in_view(&self, query: &str) -> bool {
        let whole = format!(
            "(() => {{
                const element = {};
                if (!element) return false;
                const [{{left, right, top, bottom}}, part] = [element.getBoundingClientRect(), ({PART})(element)];
                return [left - part.left, part.right - right, top - part.top, part.bottom - bottom].every((over) => Math.abs(over) <= 1);
            }})()",
            first_shown(query)
        );
        self.eval(&whole).await
    }

    /// Clicks on the first element that matches, once it can be clicked on: nothing may lie over it.
    pub async fn click(&self, query: &str) {
        let find = format!(
            "(() => {{
                const element = {};
                if (!element || element.disabled) return null;
                element.scrollIntoView({{block: 'nearest', inline: 'nearest', behavior: 'instant'}});
                const {{left, right, top, bottom}} = ({PART})(element);
                const point = [(left + right) / 2, (top + bottom) / 2];
                return element.contains(document.elementFromPoint(...point)) ? point : null;
            }})()",
            first_shown(query)
        );
        let point: Option<(f64, f64)> = self
            .until_value(
                &format!("{query} can be clicked on"),
                &find,
                Option::is_some,
            )
            .await;
        let (x, y) = point.expect("it can be clicked on");
        self.mouse("mouseMoved", x, y, 0).await;
        self.mouse("mousePressed", x, y, 1).await;
        self.mouse("mouseReleased", x, y, 1).await;
    }

    /// Moves the mouse to a point of the first element that matches, given in shares of its width and height.
    pub async fn hover(&self, query: &str, (across, down): (f64, f64)) {
        self.until_shown(query).await;
        self.scroll_to(query).await;
        let rect = self.rect(query).await;
        let (x, y) = (rect.x + rect.width * across, rect.y + rect.height * down);
        self.mouse("mouseMoved", x, y, 0).await;
    }

    /// Drags the mouse over an element from one share of its width to another.
    pub async fn drag(&self, query: &str, from: f64, to: f64) {
        self.until_shown(query).await;
        self.scroll_to(query).await;
        let rect = self.rect(query).await;
        let y = rect.y + rect.height / 2.0;
        let x = |share: f64| rect.x + rect.width * share;
        self.mouse("mouseMoved", x(from), y, 0).await;
        self.mouse("mousePressed", x(from), y, 1).await;
        for step in 1..=5 {
            let share = from + (to - from) * f64::from(step) / 5.0;
            self.mouse_held(x(share), y).await;
        }
        self.mouse("mouseReleased", x(to), y, 1).await;
    }

    /// Gives an element the focus, as the Tab key would.
    pub async fn focus(&self, query: &str) {
        self.until_shown(query).await;
        self.run(&format!(
            "document.querySelector({}).focus()",
            quoted(query)
        ))
        .await;
    }

    /// Types a text into what has the focus.
    pub async fn type_text(&self, text: &str) {
        for character in text.chars() {
            let key = character.to_string();
            match Key::named(&key) {
                Some(_) => self.press(&key).await,
                None => {
                    self.call("Input.insertText", json!({"text": key})).await;
                }
            }
        }
    }

    /// Presses a key, named as in `KeyboardEvent.key`; `Shift+Tab` and the like hold a modifier.
    pub async fn press(&self, key: &str) {
        const MODIFIERS: [(&str, i64); 4] =
            [("Alt+", 1), ("Control+", 2), ("Meta+", 4), ("Shift+", 8)];
        let modifier = MODIFIERS
            .iter()
            .find_map(|(name, bit)| Some((key.strip_prefix(name)?, *bit)));
        let (key, modifiers) = modifier.unwrap_or((key, 0));
        let key = Key::named(key).unwrap_or_else(|| panic!("no key is named {key}"));
        let mut event = json!({
            "type": "keyUp",
            "key": key.name,
            "code": key.code,
            "modifiers": modifiers,
            "windowsVirtualKeyCode": key.number,
            "nativeVirtualKeyCode": key.number,
        });
        let up = event.clone();
        event["type"] = "rawKeyDown".into();
        if let Some(text) = key.text.filter(|_| modifiers == 0) {
            event["type"] = "keyDown".into();
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", event).await;
        self.call("Input.dispatchKeyEvent", up).await;
    }

    async fn scroll_to(&self, query: &str) {
        let query = quoted(query);
        self.run(&format!(
            "document.querySelector({query}).scrollIntoView({{block: 'nearest', behavior: 'instant'}})"
        ))
        .await;
    }

    async fn mouse(&self, kind: &str, x: f64, y: f64, clicks: i64) {
        let button = if clicks > 0 { "left" } else { "none" };
        let held = i64::from(kind == "mousePressed");
        let event = json!({
            "type": kind, "x": x, "y": y, "button": button, "buttons": held, "clickCount": clicks,
        });
        self.call("Input.dispatchMouseEvent", event).await;
    }

    async fn mouse_held(&self, x: f64, y: f64) {
        let event = json!({"type": "mouseMoved", "x": x, "y": y, "button": "left", "buttons": 1});
        self.call("Input.dispatchMouseEvent", event).await;
    }
}

/// A key of a keyboard as most have it.
struct Key {
    /// As in `KeyboardEvent.key`.
    name: String,
    /// Where it is: as in `KeyboardEvent.code`.
    code: String,
    /// As in `KeyboardEvent.keyCode`.
    number: u32,
    /// What it writes.
    text: Option<String>,
}

impl Key {
    /// The key of this name, or the one that writes this letter or digit.
    fn named(name: &str) -> Option<Self> {
        let (code, number, text) = match name {
            "Backspace" => (name.to_owned(), 8, None),
            "Tab" => (name.to_owned(), 9, None),
            "Enter" => (name.to_owned(), 13, Some("\r")),
            "Escape" => (name.to_owned(), 27, None),
            " " => ("Space".to_owned(), 32, Some(name)),
            "End" => (name.to_owned(), 35, None),
            "Home" => (name.to_owned(), 36, None),
            "ArrowLeft" => (name.to_owned(), 37, None),
            "ArrowUp" => (name.to_owned(), 38, None),
            "ArrowRight" => (name.to_owned(), 39, None),
            "ArrowDown" => (name.to_owned(), 40, None),
            "/" => ("Slash".to_owned(), 191, Some(name)),
            _ => {
                let mut characters = name.chars();
                let character = characters
                    .next()
                    .filter(|one| one.is_ascii_alphanumeric())?;
                if characters.next().is_some() {
                    return None;
                }
                let upper = character.to_ascii_uppercase();
                let kind = if upper.is_ascii_digit() {
                    "Digit"
                } else {
                    "Key"
                };
                (format!("{kind}{upper}"), u32::from(upper), Some(name))
            }
        };
        Some(Self {
            name: name.to_owned(),
            code,
            number,
            text: text.map(str::to_owned),
        })
    }
}

/// The first element that matches and has a place on the page.
fn first_shown(query: &str) -> String {
    format!(
        "[...document.querySelectorAll({})].find((one) => one.getClientRects().length > 0)",
        quoted(query)
    )
}
