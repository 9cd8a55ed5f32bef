//! The admin router.

use std::sync::Arc;

use super::Pulse;
use crate::error::BuildError;
use crate::query::Reader;

impl Pulse {
    /// The admin router, to be merged: serves `path`, with and without a slash at its end, and all
    /// below it. It fits into an app with any state `S`. All routers of a `Pulse` read the store together, so that
    /// a second one costs nothing more.
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
    /// # Panics
    /// The path does not begin with a slash, ends with one or holds a parameter, or the access has
    /// an empty secret or allows something that is no host. As with axum's `Router::nest`, that is found out when the service starts;
    /// [`try_mount`](Self::try_mount) returns it.
    #[track_caller]
    pub fn mount<S>(&self, path: &str, access: crate::admin::Access) -> axum::Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        match self.try_mount(path, access) {
            Ok(router) => router,
            Err(error) => panic!("{error}"),
        }
    }

    /// The same as [`mount`](Self::mount), without the panic.
    ///
    /// # Errors
    /// The path or the access cannot work.
    pub fn try_mount<S>(
        &self,
        path: &str,
        access: crate::admin::Access,
    ) -> Result<axum::Router<S>, BuildError>
    where
        S: Clone + Send + Sync + 'static,
    {
        let router = crate::admin::mounted(self.admin_source(), access, path)?;
        self.0.parts.skips.add(&format!("{path}/*"));
        Ok(router.layer(self.layer().standing_in()))
    }

    /// The admin router for axum's `nest` and `nest_service`. (`nest` never gives it the path with a
    /// slash at its end; [`mount`](Self::mount) serves both.)
    ///
    /// # Panics
    /// The access has an empty secret, or allows something that is no host.
    #[track_caller]
    pub fn router<S>(&self, access: crate::admin::Access) -> axum::Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        match crate::admin::router(self.admin_source(), access) {
            Ok(router) => router,
            Err(error) => panic!("{error}"),
        }
    }

    fn admin_source(&self) -> crate::admin::Source {
        let parts = &self.0.parts;
        let (recorder, pulse) = (parts.recorder.clone(), self.clone());
        let (counters, marking) = (recorder.clone(), self.clone());
        let rankings = recorder.clone();
        let reader = self.0.reader.get_or_init(|| {
            let flusher = parts.flusher.clone();
            let unsent = Arc::new(move || flusher.unsent());
            let target = parts.target.map(|target| target.as_secs_f64());
            let (store, clock) = (parts.store.clone(), parts.clock.clone());
            Arc::new(Reader::new(store, clock, unsent, target, parts.query_bytes))
        });
        crate::admin::Source {
            store: parts.store.clone(),
            reader: reader.clone(),
            clock: parts.clock.clone(),
            service: parts.service.clone(),
            app_version: recorder.limits.app_version.clone(),
            precisions: parts.precisions.clone(),
            target: parts.target,
            rankings: Arc::new(move || rankings.rankings.list()),
            health: Arc::new(move || pulse.health()),
            add_mark: Arc::new(move |mark| {
                let pulse = marking.clone();
                Box::pin(async move { pulse.add_mark(mark).await })
            }),
            totals: Arc::new(move || recorder.drain.totals()),
            counters: Arc::new(move || counters.counter_totals()),
            #[cfg(feature = "row-cache")]
            row_caches: parts.row_caches.clone(),
        }
    }
}
