//! Watches the conditions of an instance. The beginning and the end of a condition are logged, and passed to the user's
//! functions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Handle, Stages};
use crate::callbacks::{Callback, Callbacks};
use crate::clock::{Clock, Tick};
use crate::condition::{Condition, ConditionEvent, Warning};
use crate::task::lock;
use tower_pulse_model::sorted;

/// The time between two checks. A condition begins or ends when two successive checks agree. So a single failed call
/// does not begin a condition.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two log lines about the beginning of the same condition.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// The state of each condition that a check has found.
pub(super) struct Watch {
    checked: Mutex<Vec<(Condition, Checked)>>,
    callbacks: Callbacks<ConditionEvent>,
}

/// The state of a condition at the last checks.
#[derive(Debug, Default)]
struct Checked {
    since: i64,
    is_ongoing: bool,
    /// Whether the last check found the condition.
    is_found: bool,
    warnings: Vec<String>,
    logged_at: Option<Tick>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            checked: Mutex::default(),
            callbacks: Callbacks::new("on_condition"),
        }
    }
}

impl Watch {
    /// Compares the current warnings with the ongoing conditions. Returns an event for each condition that begins or
    /// ends.
    fn check(&self, instance: &str, clock: &Clock, warnings: Vec<Warning>) -> Vec<ConditionEvent> {
        let mut checked = lock(&self.checked);
        for warning in &warnings {
            sorted::entry(&mut checked, warning.condition, Checked::default);
        }
        let mut events = Vec::new();
        for (condition, state) in &mut *checked {
            let found = warnings.iter().filter(|w| w.condition == *condition);
            let found: Vec<String> = found.map(|warning| warning.text.clone()).collect();
            let is_confirmed = found.is_empty() != state.is_found;
            state.is_found = !found.is_empty();
            if state.is_found && !state.is_ongoing {
                state.warnings = found;
                if !is_confirmed {
                    state.since = clock.now_seconds();
                    continue;
                }
            } else if state.is_found || !is_confirmed || !state.is_ongoing {
                continue;
            }
            state.is_ongoing = !state.is_ongoing;
            let event = ConditionEvent {
                condition: *condition,
                instance: instance.to_owned(),
                warnings: state.warnings.clone(),
                since: state.since,
                ended: (!state.is_ongoing).then(|| clock.now_seconds()),
            };
            let is_recent = |at| clock.since(at) < LOGGED_EVERY;
            if matches!(condition, Condition::Configuration | Condition::Overflow) {
                // The log already names the cause of these two conditions: the setting, or the first name beyond the
                // limit.
            } else if !state.is_ongoing {
                tracing::info!("{event}");
            } else if !state.logged_at.is_some_and(is_recent) {
                state.logged_at = Some(clock.tick());
                tracing::warn!("{event}");
            }
            events.push(event);
        }
        events
    }
}

impl Stages {
    pub(super) async fn watch_conditions(self: Arc<Self>) {
        let clock = &self.options.clock;
        loop {
            clock.sleep(CHECK_EVERY).await;
            let instance = self.flusher.status().instance;
            let events = self.watch.check(&instance, clock, self.warnings());
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
    fn a_condition_begins_and_ends_when_two_checks_agree() {
        let (clock, manual_clock) = Clock::manual(1_000);
        let watch = Watch::default();
        let check = |warnings: &[&str]| {
            manual_clock.advance(CHECK_EVERY);
            let warnings = warnings.iter().map(|text| Condition::Fold.warning(*text));
            let events = watch.check("web-1", &clock, warnings.collect()).into_iter();
            let events = events.map(|event| (event.since, event.ended, event.to_string()));
            events.collect::<Vec<_>>()
        };
        assert!(check(&["a"]).is_empty() && check(&[]).is_empty());
        assert!(check(&["b"]).is_empty());
        assert_eq!(check(&["c"]), [(1_003, None, "fold: c".to_owned())]);
        assert!(check(&["c"]).is_empty() && check(&[]).is_empty() && check(&["d"]).is_empty());
        assert!(check(&[]).is_empty());
        let end = "fold is over after 6 s".to_owned();
        assert_eq!(check(&[]), [(1_003, Some(1_009), end)]);
        assert!(check(&[]).is_empty() && check(&["e"]).is_empty());
    }
}
