//! The dashboard's router.

use axum::Router;

use super::Dashboard;
use crate::admin::Access;
use tower_pulse_core::error::BuildError;

impl Dashboard {
    /// Returns the dashboard's router, for axum's `merge` into the router of your app. The router serves `path`, with
    /// and without a slash at its end, and everything below it, as [`Pulse::mount`](crate::Pulse::mount) does.
    ///
    /// # Panics
    /// If the path or the access is not valid, as in [`Pulse::mount`](crate::Pulse::mount).
    /// [`try_mount`](Self::try_mount) returns the error instead.
    #[track_caller]
    pub fn mount<S>(&self, path: &str, access: Access) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        tower_pulse_admin::or_panic(self.try_mount(path, access))
    }

    /// The same as [`mount`](Self::mount), without the panic.
    ///
    /// # Errors
    /// The path or the access is not valid.
    pub fn try_mount<S>(&self, path: &str, access: Access) -> Result<Router<S>, BuildError>
    where
        S: Clone + Send + Sync + 'static,
    {
        tower_pulse_admin::mounted(self.source(), access, path)
    }

    /// Returns the router for axum's `nest` and `nest_service`, as [`Pulse::router`](crate::Pulse::router) does.
    ///
    /// # Panics
    /// If the access is not valid.
    #[track_caller]
    pub fn router<S>(&self, access: Access) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        tower_pulse_admin::or_panic(tower_pulse_admin::router(self.source(), access))
    }

    fn source(&self) -> tower_pulse_admin::Source {
        tower_pulse_admin::Source {
            query: self.query.clone(),
            service: self.view.service.clone(),
            trace_url: self.view.trace_url.clone(),
            app_version: None,
            instance: None,
        }
    }
}
