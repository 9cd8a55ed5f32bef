//! Questions about the recorded data.

use super::Pulse;
use tower_pulse_core::query::answers::Reader;

impl Pulse {
    /// Returns the reader of the data that the dashboard shows: see [`query`](crate::query). The routers of this
    /// `Pulse` share the reader, so the store is asked once for all routers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tower_pulse::query::PathQuery;
    ///
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// # pulse.record("GET /search", std::time::Duration::from_millis(7), http::StatusCode::OK);
    /// # pulse.flush().await?;
    /// let mut search = PathQuery::default();
    /// search.context = "GET /search".to_owned();
    /// search.window = Some("1h".parse()?);
    /// let answer = pulse.query().ask(&search).await?;
    /// if let Some(window) = &answer.window {
    ///     println!("p95: {:?} s, before: {:?} s", window.window.now.times.p95, window.window.before.measured.times.p95);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn query(&self) -> &Reader {
        self.0.handle.query()
    }
}
