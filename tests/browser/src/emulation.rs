//! What the browser pretends: its size, the wishes of whoever looks, and a network that is away.

use serde_json::json;

use crate::page::Page;

/// The size of a window, in CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(i64, i64);

impl Size {
    /// What a laptop shows: all questions are answered on it without scrolling.
    pub const DESKTOP: Self = Self(1280, 900);
    /// A large screen.
    pub const LARGE: Self = Self(1920, 1080);
    /// What most screens show.
    pub const USUAL: Self = Self(1440, 900);
    /// A phone.
    pub const PHONE: Self = Self(390, 844);
}

/// What somebody prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// A light page.
    Light,
    /// A dark page.
    Dark,
    /// The few colours of the system, on light.
    ForcedColors,
    /// A light page on which nothing moves.
    ReducedMotion,
}

impl Page {
    /// Gives the window another size.
    pub async fn resize(&self, size: Size) {
        let metrics = json!({
            "width": size.0, "height": size.1, "deviceScaleFactor": 1, "mobile": size == Size::PHONE,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics)
            .await;
    }

    /// Wishes for a page of a kind.
    pub async fn prefer(&self, media: Media) {
        let (scheme, colors, motion) = match media {
            Media::Light => ("light", "none", "no-preference"),
            Media::Dark => ("dark", "none", "no-preference"),
            Media::ForcedColors => ("light", "active", "no-preference"),
            Media::ReducedMotion => ("light", "none", "reduce"),
        };
        let features = [
            ("prefers-color-scheme", scheme),
            ("forced-colors", colors),
            ("prefers-reduced-motion", motion),
        ];
        let features = features.map(|(name, value)| json!({"name": name, "value": value}));
        self.call("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
    }

    /// Cuts the tab off from the network, or connects it again.
    pub async fn set_offline(&self, is_offline: bool) {
        // Deprecated in Chromium; its successors do not tell the page that it is offline in one call.
        let conditions = json!({
            "offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1,
        });
        self.call("Network.emulateNetworkConditions", conditions)
            .await;
    }

    /// Lets the page's timers run 20 times as fast: those that it sets from now on.
    pub async fn hasten(&self) {
        self.run("{ const wait = setTimeout; window.setTimeout = (then, time) => wait(then, time / 20); }")
            .await;
    }

    /// Behaves as the tab in front, whichever is.
    pub(crate) async fn keep_focus(&self) {
        let enabled = json!({"enabled": true});
        self.call("Emulation.setFocusEmulationEnabled", enabled)
            .await;
    }
}
