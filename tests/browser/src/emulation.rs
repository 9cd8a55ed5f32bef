//! Emulates a window's size, a user's preferences, and a missing network.

use serde_json::json;

use crate::page::Page;

/// The size of a window, in CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(i64, i64);

impl Size {
    /// A small window on a desktop, in which users must find answers without scrolling.
    pub const DESKTOP: Self = Self(1280, 900);
    /// A large screen.
    pub const LARGE: Self = Self(1920, 1080);
    /// A common size of a window on a desktop.
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
    /// A light page in the few colours that the system allows, as for users who need high contrast.
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
        // Chromium deprecates this method, but no newer method both cuts the network and tells the page about the cut.
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

    pub(crate) async fn keep_focus(&self) {
        let enabled = json!({"enabled": true});
        self.call("Emulation.setFocusEmulationEnabled", enabled)
            .await;
    }
}
