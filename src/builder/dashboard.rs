//! The configuration of a [`Dashboard`].

use super::{Backend, Builder};
use crate::dashboard::Dashboard;
use crate::pulse::ViewOptions;
use tower_pulse_core::error::BuildError;

/// Configures a [`Dashboard`]. These settings must be the same as in the instances: the Redis, `service` or `prefix`,
/// `precisions`, `retained_slices` and `book_keys`. Targets may differ: the dashboard shows its own targets. The
/// builder has the methods of [`Builder`] that do not concern recording.
///
/// ```
/// # fn main() -> Result<(), tower_pulse::BuildError> {
/// use tower_pulse::Dashboard;
///
/// let dashboard = Dashboard::builder()
///     .redis("redis://127.0.0.1/")
///     .service("shop")
///     .build()?;
/// let error = Dashboard::builder().build().unwrap_err();
/// assert_eq!(error.field(), "redis");
/// # Ok(()) }
/// ```
pub type DashboardBuilder = Builder<Dashboard>;

impl Dashboard {
    /// Returns a builder with the defaults.
    pub fn builder() -> DashboardBuilder {
        Builder::default()
    }
}

impl Builder<Dashboard> {
    /// Builds the dashboard. An unreachable Redis is no error of `build`: the first question opens the connection.
    ///
    /// # Errors
    /// A setting is not valid, or no Redis is set.
    pub fn build(self) -> Result<Dashboard, BuildError> {
        self.validate()?;
        let Backend::Redis(options) = &self.backend else {
            let allowed = "give the URL of the Redis that the instances of the service write to";
            return Err(BuildError::new("redis", "missing", allowed));
        };
        let store = self.open_redis(options.clone()?.read_only())?;
        let view = ViewOptions {
            service: self.service,
            trace_url: self.trace_url,
        };
        Ok(Dashboard::new(store, self.options, view))
    }
}
