//! The dashboard in a process that does not record.

#[cfg(feature = "admin")]
mod router;

use std::sync::Arc;

use crate::pulse::ViewOptions;
use tower_pulse_core::handle::HandleOptions;
use tower_pulse_core::health::Notices;
use tower_pulse_core::query::answers::Reader;
use tower_pulse_core::query::{Source, reader};
use tower_pulse_core::skew;
use tower_pulse_core::store::Store;

/// The dashboard as a process of its own, for a Redis that the instances of a service write to.
///
/// The dashboard only reads. Its Redis user needs permission for reading commands only, and the server may be a
/// replica. The dashboard is not an instance: it makes no marks, and lists of instances omit it. The dashboard has no
/// background tasks: only questions read the store. If nothing is recorded yet, the dashboard says so.
///
/// ```no_run
/// # #[cfg(feature = "admin")]
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tower_pulse::{Dashboard, admin::Access};
///
/// let dashboard = Dashboard::builder().redis("redis://127.0.0.1/").service("shop").build()?;
/// let app = dashboard.mount("/pulse", Access::token("change me"));
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:3001").await?;
/// axum::serve(listener, app).await?;
/// # Ok(()) }
/// # #[cfg(not(feature = "admin"))] fn main() {}
/// ```
#[derive(Clone)]
pub struct Dashboard {
    query: Reader,
    #[cfg_attr(not(feature = "admin"), allow(dead_code))]
    view: ViewOptions,
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dashboard")
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

impl Dashboard {
    pub(crate) fn new(store: Arc<dyn Store>, options: HandleOptions, view: ViewOptions) -> Self {
        let query = reader(Source::new(
            store,
            skew::following(options.clock),
            options.targets,
            options.query_bytes,
            // Each dashboard has its own warnings, even if clones of one builder build several dashboards.
            Notices::default(),
            None,
        ));
        Self { query, view }
    }

    /// Returns the reader of the data that the dashboard shows: see [`query`](crate::query).
    pub fn query(&self) -> &Reader {
        &self.query
    }
}
