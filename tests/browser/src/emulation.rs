//! What the browser pretends: its size, the wishes of whoever looks, and a network that is away.

use serde_json::json;

use crate::page::Page;

/// The size of a window, in CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    width: i64,
    height: i64,
    is_phone: bool,
}

impl Size {
    /// What a laptop shows: all questions are answered on it without scrolling.
    pub const DESKTOP: Self = Self {
        width: 1280,
        height: 900,
        is_phone: false,
    };
    /// A large screen.
    pub const LARGE: Self = Self {
        width: 1920,
        height: 1080,
        is_phone: false,
    };
    /// What most screens show.
    pub const USUAL: Self = Self {
        width: 1440,
        height: 900,
        is_phone: false,
    };
    /// A phone.
    pub const PHONE: Self = Self {
        width: 390,
        height: 844,
        is_phone: true,
    };
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
            "width": size.width, "height": size.height, "deviceScaleFactor": 1, "mobile": size.is_phone,
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

    /// Behaves as the tab in front, whichever is.
    pub(crate) async fn keep_focus(&self) {
        self.call(
            "Emulation.setFocusEmulationEnabled",
            json!({"enabled": true}),
        )
        .await;
    }
}
