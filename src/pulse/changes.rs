//! Changes and marks.

use std::sync::Arc;

use super::Pulse;
use tower_pulse_core::error::StoreError;
use tower_pulse_detect::change::Change;
use tower_pulse_model::mark::Mark;

impl Pulse {
    /// Calls `on_change` with each [`Change`] that begins or ends: a page that is slower than before, fails, or has no
    /// requests any more. Call it once, after the `Pulse` is built; each function is called.
    ///
    /// One instance of the fleet detects changes, so that a function which every instance registers is called at
    /// most once when a change begins and once when it ends ([`Change::ended`] is set then), at the end of the
    /// minute. If that instance dies at this moment, nobody calls it; `api/changes` shows the change all the same.
    /// The call happens on a thread that may block; those for several changes of a minute may happen at the same time.
    /// Detection waits for them for 10 s, and goes on then.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// pulse.on_change(|change| match change.ended {
    ///     None => tracing::warn!(since = change.since, "{change}"), // GET /search is slower: 2.58 times as before
    ///     Some(_) => tracing::info!("{change}"),                    // GET /search is no longer slower
    /// });
    /// # Ok(()) }
    /// ```
    pub fn on_change(&self, on_change: impl Fn(&Change) + Send + Sync + 'static) {
        self.0.handle.on_change(Arc::new(on_change));
    }

    /// The changes of the fleet: those that stand first, by the time that they cost, then those that have ended.
    ///
    /// # Errors
    /// The store failed.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn changes(&self) -> Result<Vec<Change>, StoreError> {
        self.0.handle.changes().await
    }

    /// Marks this moment, for the whole fleet: a deploy, a migration, a campaign. Changes that begin near a mark name
    /// it as a suspect, and `api/deploy` compares each page before and after it. The newest 50 are kept, beside the newest
    /// 50 of versions. Characters that show nothing, or turn the direction of text, are escaped in the text.
    ///
    /// [`Builder::app_version`](crate::Builder::app_version) makes marks of deploys by itself.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// let mark = pulse.mark("new index on orders").await?;
    /// assert_eq!(&*mark.text, "new index on orders");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The text is empty, longer than 200 bytes, or has control characters; or the `Pulse` was shut down; or 100 marks
    /// wait for the store; or the mark cannot be read within 5 s, as the store failed or nobody folds: it may still appear
    /// then, once the store is back.
    ///
    /// # Cancel safety
    /// The mark may have been made, or may still appear.
    pub async fn mark(&self, text: &str) -> Result<Mark, StoreError> {
        self.0.handle.mark(text).await
    }
}
