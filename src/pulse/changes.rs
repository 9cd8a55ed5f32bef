//! Changes and marks.

use std::sync::Arc;

use super::Pulse;
use tower_pulse_core::condition::ConditionEvent;
use tower_pulse_core::error::{AmendError, StoreError};
use tower_pulse_detect::change::Change;
use tower_pulse_model::mark::Mark;

impl Pulse {
    /// Calls `on_change` with each [`Change`] that begins or ends: for example, a page is slower than before, fails, or
    /// stops getting requests. Register functions once, after the `Pulse` is built; each registered function is called.
    ///
    /// One instance of the fleet detects changes, after each minute, and calls only its own functions. Register the
    /// same function in every instance. The function is called at most once when a change begins, and at most once when
    /// the change ends ([`Change::ended`] is set then). If the detecting instance dies before the call, the function is
    /// not called, but `api/changes` shows the change. The call runs on a thread that may block; calls for several
    /// changes of a minute may run at the same time. Detection waits at most 10 s for the calls.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// pulse.on_change(|change| match change.ended {
    ///     // GET /search takes 2.58 times as long as before
    ///     None => tracing::warn!(since = change.since, "{change}"),
    ///     Some(_) => tracing::info!("{change}"), // GET /search is no longer slower
    /// });
    /// # Ok(()) }
    /// ```
    pub fn on_change(&self, on_change: impl Fn(&Change) + Send + Sync + 'static) {
        self.0.handle.on_change(Arc::new(on_change));
    }

    /// Calls `on_condition` with each [`Condition`](crate::Condition) of this instance or its store that begins or
    /// ends, such as: folding fails, a command is denied, samples are lost. Health and the gauge `pulse_condition` show
    /// the same conditions. Register functions once, after the `Pulse` is built; each instance calls each of its
    /// functions.
    ///
    /// The instance looks for problems once a second. A condition begins when its problem is found twice in a row, and
    /// ends when its problem is absent twice in a row ([`ConditionEvent::ended`](crate::ConditionEvent::ended) is set
    /// then). The call runs on a thread that may block; the next event waits at most 10 s for the call.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tower_pulse::Condition;
    ///
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// pulse.on_condition(|event| match (event.condition, event.ended) {
    ///     (Condition::Routes, _) => {}                  // known
    ///     (_, None) => eprintln!("begins: {event}"),    // eviction: maxmemory-policy is allkeys-lru, …
    ///     (_, Some(_)) => eprintln!("ends: {event}"),   // eviction is over after 95 s
    /// });
    /// # Ok(()) }
    /// ```
    pub fn on_condition(&self, on_condition: impl Fn(&ConditionEvent) + Send + Sync + 'static) {
        self.0.handle.on_condition(Arc::new(on_condition));
    }

    /// Returns the changes of the fleet. Ongoing changes come first, sorted by the time that they cost; the last of
    /// them are pages that refuse requests, and new errors. Ended changes follow, the latest end first.
    ///
    /// # Errors
    /// The store failed.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn changes(&self) -> Result<Vec<Change>, StoreError> {
        self.0.handle.changes().await
    }

    /// Acknowledges a change in the name of a person, for the whole fleet, as *Acknowledge* does on the dashboard.
    /// Until the change ends, the dashboard shows the name, and still lists the change as a problem. A second
    /// acknowledgement replaces the name. The name's hidden characters are escaped, the name is cut at 64 bytes, and an
    /// empty name becomes `someone`.
    ///
    /// Folding pauses for a moment while the acknowledgement is written. At most 100 changes of a store are
    /// acknowledged at the same time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// for change in pulse.changes().await?.iter().filter(|change| change.ended.is_none()) {
    ///     pulse.acknowledge_change(&change.id, "the bot on call").await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// There is no such change, or the change has ended; 100 other changes are acknowledged; the `Pulse` was shut down;
    /// the store failed; or the store has not written the acknowledgement within 5 s. In the last two cases, the text
    /// says whether the acknowledgement may still be written.
    ///
    /// # Cancel safety
    /// The change may have been acknowledged.
    pub async fn acknowledge_change(&self, id: &str, by: &str) -> Result<Change, AmendError> {
        self.0.handle.acknowledge_change(id, Some(by)).await
    }

    /// Withdraws the [acknowledgement](Self::acknowledge_change) of a change, as *Withdraw* does on the dashboard. Does
    /// nothing if the change is not acknowledged.
    ///
    /// # Errors
    /// Those of [`acknowledge_change`](Self::acknowledge_change).
    ///
    /// # Cancel safety
    /// The acknowledgement may have been withdrawn.
    pub async fn unacknowledge_change(&self, id: &str) -> Result<Change, AmendError> {
        self.0.handle.acknowledge_change(id, None).await
    }

    /// Removes a [mark](Self::mark), and returns it. Changes no longer name the mark as a suspect. If the mark is of a
    /// version, the version gets a new mark only after another version was marked, even if all instances restart.
    ///
    /// # Errors
    /// There is no such mark; the `Pulse` was shut down; the store failed; or the store has not removed the mark within
    /// 5 s. In the last two cases, the text says whether the mark may still be removed.
    ///
    /// # Cancel safety
    /// The mark may have been removed.
    pub async fn remove_mark(&self, id: &str) -> Result<Mark, AmendError> {
        self.0.handle.remove_mark(id).await
    }

    /// Marks this moment, for the whole fleet: a deploy, a migration, a campaign. Changes that begin near a mark name
    /// it as a suspect, and `api/deploy` compares each page before and after the mark. The newest 50 of these marks are
    /// kept, and also the newest 50 marks of versions. Invisible characters, and those that change the direction of
    /// text, are escaped.
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
    /// The text is empty, longer than 200 bytes, or has control characters; the `Pulse` was shut down; 100 marks wait
    /// for the store; or the mark cannot be read within 5 s, because the store failed or no instance folds. In the last
    /// case, the mark may still appear later.
    ///
    /// # Cancel safety
    /// The mark may have been made, or may still appear.
    pub async fn mark(&self, text: &str) -> Result<Mark, StoreError> {
        self.0.handle.mark(text).await
    }
}
