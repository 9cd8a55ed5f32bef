//! What the browser pretends: its size, the wishes of whoever looks, and a network that is away.

use chromiumoxide::cdp::browser_protocol::emulation::{
    MediaFeature, SetDeviceMetricsOverrideParams, SetEmulatedMediaParams,
    SetFocusEmulationEnabledParams,
};
#[allow(
    deprecated,
    reason = "its successors do not tell the page that it is offline in one call"
)]
use chromiumoxide::cdp::browser_protocol::network::EmulateNetworkConditionsParams;

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
        let metrics =
            SetDeviceMetricsOverrideParams::new(size.width, size.height, 1.0, size.is_phone);
        self.execute(metrics).await;
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
        let features = features.map(|(name, value)| MediaFeature::new(name, value));
        let params = SetEmulatedMediaParams::builder().features(features).build();
        self.execute(params).await;
    }

    /// Cuts the tab off from the network, or connects it again.
    #[allow(deprecated, reason = "see the import")]
    pub async fn set_offline(&self, is_offline: bool) {
        self.execute(EmulateNetworkConditionsParams::new(
            is_offline, 0.0, -1.0, -1.0,
        ))
        .await;
    }

    /// Behaves as the tab in front, whichever is.
    pub(crate) async fn keep_focus(&self) {
        self.execute(SetFocusEmulationEnabledParams::new(true))
            .await;
    }
}
