//! Mouse and keys.

use chromiumoxide::cdp::browser_protocol::input::{
    DispatchKeyEventParams, DispatchKeyEventType, DispatchMouseEventParams, DispatchMouseEventType,
    InsertTextParams, MouseButton,
};
use chromiumoxide::keys;
use serde::Deserialize;

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
        self.mouse(DispatchMouseEventType::MouseMoved, x, y, 0)
            .await;
        self.mouse(DispatchMouseEventType::MousePressed, x, y, 1)
            .await;
        self.mouse(DispatchMouseEventType::MouseReleased, x, y, 1)
            .await;
    }

    /// Moves the mouse to a point of the first element that matches, given in shares of its width and height.
    pub async fn hover(&self, query: &str, (across, down): (f64, f64)) {
        self.until_shown(query).await;
        self.scroll_to(query).await;
        let rect = self.rect(query).await;
        let (x, y) = (rect.x + rect.width * across, rect.y + rect.height * down);
        self.mouse(DispatchMouseEventType::MouseMoved, x, y, 0)
            .await;
    }

    /// Drags the mouse over an element from one share of its width to another.
    pub async fn drag(&self, query: &str, from: f64, to: f64) {
        self.until_shown(query).await;
        self.scroll_to(query).await;
        let rect = self.rect(query).await;
        let y = rect.y + rect.height / 2.0;
        let x = |share: f64| rect.x + rect.width * share;
        self.mouse(DispatchMouseEventType::MouseMoved, x(from), y, 0)
            .await;
        self.mouse(DispatchMouseEventType::MousePressed, x(from), y, 1)
            .await;
        for step in 1..=5 {
            let share = from + (to - from) * f64::from(step) / 5.0;
            self.mouse_held(x(share), y).await;
        }
        self.mouse(DispatchMouseEventType::MouseReleased, x(to), y, 1)
            .await;
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
            match keys::get_key_definition(&key) {
                Some(_) => self.press(&key).await,
                None => {
                    self.execute(InsertTextParams::new(key)).await;
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
        let known =
            keys::get_key_definition(key).unwrap_or_else(|| panic!("no key is named {key}"));
        let text = known
            .text
            .or((known.key.len() == 1 && modifiers == 0).then_some(known.key));
        let mut event = DispatchKeyEventParams::builder()
            .key(known.key)
            .code(known.code)
            .modifiers(modifiers)
            .windows_virtual_key_code(known.key_code)
            .native_virtual_key_code(known.key_code);
        let up = event.clone().r#type(DispatchKeyEventType::KeyUp);
        let down = match text {
            Some(text) => {
                event = event.text(text);
                DispatchKeyEventType::KeyDown
            }
            None => DispatchKeyEventType::RawKeyDown,
        };
        self.execute(event.r#type(down).build().expect("a type"))
            .await;
        self.execute(up.build().expect("a type")).await;
    }

    async fn scroll_to(&self, query: &str) {
        let query = quoted(query);
        self.run(&format!(
            "document.querySelector({query}).scrollIntoView({{block: 'nearest', behavior: 'instant'}})"
        ))
        .await;
    }

    async fn mouse(&self, kind: DispatchMouseEventType, x: f64, y: f64, clicks: i64) {
        let button = if clicks > 0 {
            MouseButton::Left
        } else {
            MouseButton::None
        };
        let held = i64::from(kind == DispatchMouseEventType::MousePressed);
        let event = DispatchMouseEventParams::builder().r#type(kind).x(x).y(y);
        let event = event.button(button).buttons(held).click_count(clicks);
        self.execute(event.build().expect("a type and a point"))
            .await;
    }

    async fn mouse_held(&self, x: f64, y: f64) {
        let event = DispatchMouseEventParams::builder().r#type(DispatchMouseEventType::MouseMoved);
        let event = event.x(x).y(y).button(MouseButton::Left).buttons(1);
        self.execute(event.build().expect("a type and a point"))
            .await;
    }
}

/// The first element that matches and has a place on the page.
fn first_shown(query: &str) -> String {
    format!(
        "[...document.querySelectorAll({})].find((one) => one.getClientRects().length > 0)",
        quoted(query)
    )
}
