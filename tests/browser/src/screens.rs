//! The screens of the dashboard.

use crate::page::Page;

/// A screen, in the state in which a test or a picture shows it.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// The name in `body[data-screen]`.
    pub name: &'static str,
    /// The fragment of the screen's URL.
    pub fragment: &'static str,
}

const fn screen(name: &'static str, fragment: &'static str) -> Screen {
    Screen { name, fragment }
}

/// All screens, with the contexts of the demo.
pub const SCREENS: [Screen; 10] = [
    screen("overview", "overview?range=1h"),
    screen("paths", "paths?range=1h"),
    screen("path", "path?context=GET%20%2Fproducts%2F%7Bid%7D&range=1h"),
    screen("slowest", "slowest?range=1h"),
    screen("errors", "errors?range=1h"),
    screen("timers", "timers?range=1h"),
    screen("counters", "counters?range=1h"),
    screen("health", "health"),
    screen("deploy", "deploy"),
    screen("instance", "instance/web-1?range=1h"),
];

impl Page {
    /// Goes to a screen by its URL, and waits until the screen is drawn.
    pub async fn visit(&self, base: &str, screen: Screen) {
        self.go(&format!("{base}#{}", screen.fragment)).await;
        self.until_screen(screen.name).await;
    }
}
