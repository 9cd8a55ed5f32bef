//! Changes and marks.

use std::sync::Arc;

use super::Pulse;
use tower_pulse_core::condition::ConditionEvent;
use tower_pulse_core::error::{AmendError, StoreError};
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

    /// Calls `on_condition` with each [`Condition`](crate::Condition) of this instance or its store that begins or ends:
    /// folding fails, a command is denied, samples are lost, … Health and the gauge `pulse_condition` have the same
    /// ones. Call it once, after the `Pulse` is built; each function is called, by each instance.
    ///
    /// A condition begins when it is there for two seconds in a row, and ends likewise
    /// ([`ConditionEvent::ended`](crate::ConditionEvent::ended) is set then). The call happens on a thread that may
    /// block; the next event waits for it for 10 s.
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

    /// Says who sees to a change, for the whole fleet: the page no longer calls for attention by it, and shows the name,
    /// until the change ends. Whoever takes a change that somebody has taken already takes it over. The name's hidden
    /// characters are escaped, what is beyond 64 bytes then is cut off, and without a name it is `someone`.
    ///
    /// It is written between two rounds of folding: another instance that folds is interrupted for a moment, and goes on.
    /// Of a store, at most 100 changes are taken at the same time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// for change in pulse.changes().await?.iter().filter(|change| change.ended.is_none()) {
    ///     pulse.take_change(&change.id, "the bot on call").await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// There is no such change, or it has ended; or 100 others are taken; or the `Pulse` was shut down; or the store failed,
    /// or has not taken it within 5 s: the text says whether the change may still be taken then.
    ///
    /// # Cancel safety
    /// The change may have been taken.
    pub async fn take_change(&self, id: &str, by: &str) -> Result<Change, AmendError> {
        self.0.handle.take_change(id, Some(by)).await
    }

    /// Says that nobody sees to a change any more. Does nothing if nobody has [taken](Self::take_change) it.
    ///
    /// # Errors
    /// As those of [`take_change`](Self::take_change).
    ///
    /// # Cancel safety
    /// The change may have been given back.
    pub async fn give_change_back(&self, id: &str) -> Result<Change, AmendError> {
        self.0.handle.take_change(id, None).await
    }

    /// Removes a [mark](Self::mark), also one that a new version has made, and returns it. Changes name it as a suspect no
    /// longer. A version whose mark was removed is not marked again before another version was, also if all instances
    /// start again.
    ///
    /// # Errors
    /// There is no such mark; or the `Pulse` was shut down; or the store failed, or has not taken it within 5 s: the text
    /// says whether the mark may still be removed then.
    ///
    /// # Cancel safety
    /// The mark may have been removed.
    pub async fn remove_mark(&self, id: &str) -> Result<Mark, AmendError> {
        self.0.handle.remove_mark(id).await
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
