//! Watches the conditions of an instance, and reports to the log and the user's functions when one begins or ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Handle, Stages};
use crate::callbacks::{Callback, Callbacks};
use crate::clock::{Clock, Tick};
use crate::condition::{Condition, ConditionEvent, Warning};
use crate::task::lock;
use tower_pulse_model::sorted;

/// The time between two checks. A condition begins or ends when two successive checks agree, so a call that fails once
/// is no condition.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two log lines about the beginning of a condition.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// The conditions that are in progress.
pub(super) struct Watch {
    seen: Mutex<Vec<(Condition, Seen)>>,
    callbacks: Callbacks<ConditionEvent>,
}

/// The state of a condition at the last checks.
#[derive(Debug, Default)]
struct Seen {
    since: i64,
    is_ongoing: bool,
    /// Whether the last check found the condition.
    is_there: bool,
    warnings: Vec<String>,
    logged_at: Option<Tick>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            seen: Mutex::default(),
            callbacks: Callbacks::new("on_condition"),
        }
    }
}

impl Watch {
    /// Compares the current warnings with the conditions in progress. Returns an event for each condition that begins
    /// or ends.
    fn look(&self, instance: &str, clock: &Clock, warnings: Vec<Warning>) -> Vec<ConditionEvent> {
        let mut seen = lock(&self.seen);
        for warning in &warnings {
            sorted::entry(&mut seen, warning.condition, Seen::default);
        }
        let mut events = Vec::new();
        for (condition, seen) in &mut *seen {
            let there = warnings.iter().filter(|of| of.condition == *condition);
            let there: Vec<String> = there.map(|warning| warning.text.clone()).collect();
            let is_confirmed = there.is_empty() != seen.is_there;
            seen.is_there = !there.is_empty();
            if seen.is_there && !seen.is_ongoing {
                seen.warnings = there;
                if !is_confirmed {
                    seen.since = clock.now_seconds();
                    continue;
                }
            } else if seen.is_there || !is_confirmed || !seen.is_ongoing {
                continue;
            }
            seen.is_ongoing = !seen.is_ongoing;
            let event = ConditionEvent {
                condition: *condition,
                instance: instance.to_owned(),
                warnings: seen.warnings.clone(),
                since: seen.since,
                ended: (!seen.is_ongoing).then(|| clock.now_seconds()),
            };
            let is_recent = |at| clock.since(at) < LOGGED_EVERY;
            if matches!(condition, Condition::Configuration | Condition::Overflow) {
                // For these two conditions, the log already names the cause: the setting, or the first name beyond the
                // limit.
            } else if !seen.is_ongoing {
                tracing::info!("{event}");
            } else if !seen.logged_at.is_some_and(is_recent) {
                seen.logged_at = Some(clock.tick());
                tracing::warn!("{event}");
            }
            events.push(event);
        }
        events
    }
}

impl Stages {
    /// Checks the conditions each second.
    pub(super) async fn watch_conditions(self: Arc<Self>) {
        let clock = &self.options.clock;
        loop {
            clock.sleep(LOOK_EVERY).await;
            let instance = self.flusher.status().instance;
            let events = self.watch.look(&instance, clock, self.warnings());
            self.watch.callbacks.call(clock, events).await;
        }
    }
}

impl Handle {
    /// Adds a function that is called with each condition that begins or ends.
    pub fn on_condition(&self, on_condition: Callback<ConditionEvent>) {
        self.0.stages.watch.callbacks.add(on_condition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_begins_and_ends_when_two_looks_agree() {
        let (clock, manual) = Clock::manual(1_000);
        let watch = Watch::default();
        let look = |warnings: &[&str]| {
            manual.advance(LOOK_EVERY);
            let warnings = warnings.iter().map(|text| Condition::Fold.warning(*text));
            let events = watch.look("web-1", &clock, warnings.collect());
            let of = |event: &ConditionEvent| (event.since, event.ended, event.to_string());
            events.iter().map(of).collect::<Vec<_>>()
        };
        assert!(look(&["a"]).is_empty() && look(&[]).is_empty());
        assert!(look(&["b"]).is_empty());
        assert_eq!(look(&["c"]), [(1_003, None, "fold: c".to_owned())]);
        assert!(look(&["c"]).is_empty() && look(&[]).is_empty() && look(&["d"]).is_empty());
        assert!(look(&[]).is_empty());
        let end = "fold is over after 6 s".to_owned();
        assert_eq!(look(&[]), [(1_003, Some(1_009), end)]);
        assert!(look(&[]).is_empty() && look(&["e"]).is_empty());
    }
}
