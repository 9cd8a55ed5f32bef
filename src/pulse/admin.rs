//! The admin router.

use std::sync::Arc;

use super::Pulse;
use tower_pulse_core::error::BuildError;

impl Pulse {
    /// Returns the admin router, for axum's `merge` into the router of your app. The router serves `path`, with and
    /// without a slash at its end, and everything below it. The router fits into an app with any state `S`. All routers
    /// of a `Pulse` share their reads of the store, so a second router causes no further reads.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// use axum::{Router, routing::get};
    /// use tower_pulse::admin::Access;
    ///
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// let app: Router = Router::new()
    ///     .route("/", get(|| async { "hello" }))
    ///     .layer(pulse.layer())
    ///     .merge(pulse.mount("/admin/pulse", Access::token("change me")))
    ///     .with_state(String::from("the app's own state"));
    /// # Ok(()) }
    /// ```
    ///
    /// To nest the admin router in a router of your own, use [`router`](Self::router).
    ///
    /// # Panics
    /// If the path does not begin with a slash, ends with a slash or has a parameter, or if the access is not valid.
    /// [`try_mount`](Self::try_mount) returns the error instead.
    #[track_caller]
    pub fn mount<S>(&self, path: &str, access: crate::admin::Access) -> axum::Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        tower_pulse_admin::or_panic(self.try_mount(path, access))
    }

    /// The same as [`mount`](Self::mount), without the panic.
    ///
    /// # Errors
    /// The path or the access is not valid.
    pub fn try_mount<S>(
        &self,
        path: &str,
        access: crate::admin::Access,
    ) -> Result<axum::Router<S>, BuildError>
    where
        S: Clone + Send + Sync + 'static,
    {
        let router = tower_pulse_admin::mounted(self.admin_source(), access, path)?;
        // This layer is around the fallback only. Around the routes, each admin route would take one of the
        // `max_contexts`.
        let fallback = axum::Router::new().layer(self.layer().for_admin_router());
        Ok(self.unrecorded(router).merge(fallback))
    }

    /// Returns the admin router without a path, for axum's `nest_service`, which serves the path with and without a
    /// slash at its end. (With `nest`, the path with a slash at its end answers 404.)
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// use axum::Router;
    /// use tower_pulse::admin::Access;
    ///
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// let app: Router = Router::new()
    ///     .layer(pulse.layer())
    ///     .nest_service("/admin/pulse", pulse.router(Access::token("change me")));
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// If the access is not valid: an empty token or password, equal tokens, a read-only token without
    /// `Access::token`, a user with a colon, or an invalid host.
    #[track_caller]
    pub fn router<S>(&self, access: crate::admin::Access) -> axum::Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        let router = tower_pulse_admin::router(self.admin_source(), access);
        self.unrecorded(tower_pulse_admin::or_panic(router))
    }

    /// Returns a router whose requests no layer of this `Pulse` records, wherever the router is added and however a
    /// request ends.
    fn unrecorded<S>(&self, router: axum::Router<S>) -> axum::Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        router.route_layer(self.layer().context(|_| None).for_admin_router())
    }

    fn admin_source(&self) -> tower_pulse_admin::Source {
        let recorder = self.recorder().clone();
        tower_pulse_admin::Source {
            query: self.query().clone(),
            service: self.0.view.service.clone(),
            trace_url: self.0.view.trace_url.clone(),
            app_version: recorder.limits.app_version.clone(),
            instance: Some(tower_pulse_admin::Instance {
                write_limit: self.0.write_limit.clone(),
                write: self.0.handle.clone(),
                totals: Arc::new(move || recorder.drain.totals()),
            }),
        }
    }
}
