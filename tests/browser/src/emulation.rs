//! Emulates a window's size, a user's preferences, and a missing network.

use serde_json::json;

use crate::page::Page;

/// The size of a window, in CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(i64, i64);

impl Size {
    /// A laptop's window. In this size, users find answers without scrolling.
    pub const DESKTOP: Self = Self(1280, 900);
    /// A large screen.
    pub const LARGE: Self = Self(1920, 1080);
    /// The most common size.
    pub const USUAL: Self = Self(1440, 900);
    /// A tablet.
    pub const TABLET: Self = Self(768, 1024);
    /// A phone.
    pub const PHONE: Self = Self(390, 844);
}

/// A user's preferences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// A light page.
    Light,
    /// A dark page.
    Dark,
    /// A light page in the few colours of the system.
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

    /// Sets the user's preferences.
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
        // This method is deprecated in Chromium, but no single newer method also tells the page that it is offline.
        let conditions = json!({
            "offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1,
        });
        self.call("Network.emulateNetworkConditions", conditions)
            .await;
    }

    /// Lets timers that the page sets from now on run 20 times as fast.
    pub async fn hasten(&self) {
        self.run("{ const wait = setTimeout; window.setTimeout = (then, time) => wait(then, time / 20); }")
            .await;
    }

    /// Lets the tab behave as if it had the focus.
    pub(crate) async fn keep_focus(&self) {
        let enabled = json!({"enabled": true});
        self.call("Emulation.setFocusEmulationEnabled", enabled)
            .await;
    }
}
