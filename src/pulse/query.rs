//! Questions about what is recorded.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Parts, Pulse};
use crate::health::Health;
use crate::query::{Process, Reader, Source, StoreReader};
use tower_pulse_model::ranking::RankingSpec;

impl Pulse {
    /// Answers all that the dashboard shows, in Rust: see [`query`](crate::query). All routers of this `Pulse` ask it
    /// too, so that the store is asked once for all.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tower_pulse::query::{PathQuery, Window};
    ///
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// # pulse.record("GET /search", std::time::Duration::from_millis(7), http::StatusCode::OK);
    /// # pulse.flush().await?;
    /// let search = PathQuery { window: Some("1h".parse()?), ..PathQuery::new("GET /search") };
    /// let answer = pulse.query().path(&search).await?;
    /// if let Some(window) = &answer.window {
    ///     println!("p95: {:?} s, before: {:?} s", window.window.now.times.p95, window.window.before.measured.times.p95);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn query(&self) -> &Reader {
        self.0.query.get_or_init(|| {
            let parts = &self.0.parts;
            let flusher = parts.flusher.clone();
            let unsent = Arc::new(move || flusher.unsent());
            let target = parts.target.map(|target| target.as_secs_f64());
            let (store, clock) = (parts.store.clone(), parts.clock.clone());
            Reader::new(Source {
                reader: StoreReader::new(
                    store.clone(),
                    clock.clone(),
                    unsent,
                    target,
                    parts.query_bytes,
                ),
                store,
                clock,
                precisions: parts.precisions.clone(),
                target: parts.target,
                process: Some(parts.clone()),
            })
        })
    }
}

impl Process for Parts {
    fn health(&self) -> Health {
        self.health()
    }

    fn counters(&self) -> HashMap<Arc<str>, i64> {
        self.recorder.counter_totals()
    }

    fn rankings(&self) -> Vec<(Arc<str>, RankingSpec)> {
        self.recorder.rankings.list()
    }

    #[cfg(feature = "row-cache")]
    fn row_caches(&self) -> Vec<Arc<crate::row_cache::Shared>> {
        self.row_caches.all()
    }
}
