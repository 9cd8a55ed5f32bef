//! Health and warnings from the status of a store, for an instance or a process that only reads.

use super::StoreStatus;
use super::journal::NEWER_GRACE;
use crate::clock::Clock;
use crate::condition::{Condition, Warning};
use crate::health::{FoldHealth, JournalHealth, Notices, shown_name};
use tower_pulse_model::snapshot::Problem;

/// A warning is given if an entry waits longer than this number of seconds to be folded.
const UNFOLDED_TOLERATED: f64 = 15.0;

impl StoreStatus {
    /// The health of folding, in a process that may be the folder.
    pub fn fold_health(&self, is_folder: bool) -> FoldHealth {
        let journal = self.journal.clone().map(|journal| JournalHealth {
            folder: journal.folder.as_deref().map(shown_name),
            is_folder,
            ..journal
        });
        FoldHealth {
            late: self.exceptions.late,
            skewed: self.exceptions.skewed,
            quarantined: self.exceptions.quarantined,
            quarantined_keys: self.exceptions.quarantined_keys.clone(),
            journal,
        }
    }

    /// Warnings about rankings, other instances, the journal, and recent losses.
    pub fn warnings(&self, notices: &Notices, clock: &Clock) -> Vec<Warning> {
        let rankings = self.ranking_warnings.iter();
        let mut warnings: Vec<_> = rankings
            .map(|text| Condition::RankingSpecs.warning(text))
            .collect();
        for silent in &self.silent {
            warnings.push(Condition::SilentInstance.warning(format!(
                "{} has sent no heartbeat for {} s, and did not sign off. Either it has crashed, or it cannot write to \
                 the store; its own health then says why",
                silent.name, silent.seconds
            )));
        }
        let Some(journal) = &self.journal else {
            // A store in one process quarantines data only if a sum is too large, which cannot be repaired.
            return warnings;
        };
        warnings.extend(self.key_warnings());
        warnings.extend(self.journal_warnings(journal));
        let losses = [
            (
                Condition::SetAside,
                journal.set_aside,
                "requests were set aside: no instance could read their entries (see `{prefix}pulse:aside`), or the \
                 entries came while `{prefix}pulse:state` was missing. If you have rolled back, start the newer \
                 version, so that no more are set aside; these stay missing. Otherwise look for a program that uses \
                 RENAME",
            ),
            (
                Condition::JournalHole,
                journal.hole_bytes,
                "bytes of the journal were gone before they were folded: look for DEL, FLUSHALL and evictions",
            ),
            (
                Condition::Orphaned,
                journal.orphaned,
                "entries were in a journal without its state (`{prefix}pulse:orphaned`): look for DEL, RENAME and \
                 evictions",
            ),
            (
                Condition::Skewed,
                self.exceptions.skewed,
                "samples were over an hour ahead of the store's time, and were refused: set the clocks (NTP)",
            ),
        ];
        for (condition, count, text) in losses {
            // The first known count may include losses from before this process, so only later growth is reported.
            let is_known = self.created.is_some();
            if is_known && notices.has_grown(clock, condition, count, None) {
                warnings.push(condition.warning(format!("{count} {text}")));
            }
        }
        warnings
    }

    fn journal_warnings(&self, journal: &JournalHealth) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if let Some(age) = journal
            .oldest_age_seconds
            .filter(|age| *age > UNFOLDED_TOLERATED)
        {
            warnings.push(Condition::JournalWaits.warning(format!(
                "the data of the last {age:.0} s waits in the journal and is not shown yet: see the health of the \
                 instance that `fold.journal.folder` names, or of each instance if this is `null`"
            )));
        }
        if let Some(newer) = &self.newer {
            warnings.push(Condition::NewerEntry.warning(format!(
                "the journal waits at an entry in format {}, written by a newer tower-pulse; this instance reads \
                 formats up to {}. Later entries are not shown. Start an instance of the newer tower-pulse to fold \
                 them; after {} s more without one, entries in newer formats are set aside (`{{prefix}}pulse:aside`)",
                newer.version,
                newer.readable,
                NEWER_GRACE.unsigned_abs().saturating_sub(newer.waited)
            )));
        }
        warnings
    }

    /// Warnings about keys that another program has written, deleted or evicted.
    fn key_warnings(&self) -> Vec<Warning> {
        let refusals = refusals(&self.exceptions.quarantined_keys).into_iter();
        let mut warnings: Vec<_> = refusals
            .map(|text| Condition::QuarantinedKey.warning(text))
            .collect();
        if !self.gone.is_empty() {
            warnings.push(Condition::GoneTable.warning(format!(
                "recorded data is gone, with these keys: {} (a key ends with the length of its slice in seconds, and \
                 the slice's start). Another program deleted the keys (look for DEL), or the server evicted them (set \
                 maxmemory-policy to noeviction)",
                self.gone
            )));
        }
        warnings
    }
}

const MAX_REFUSALS: usize = 5;

/// Sentences about data that is omitted because keys hold a foreign value.
pub(crate) fn refusals(keys: &[Problem]) -> Vec<String> {
    let messages = keys.iter().rev().take(MAX_REFUSALS);
    let mut messages: Vec<_> = messages.map(refusal).collect();
    let more = keys.len().saturating_sub(MAX_REFUSALS);
    if more > 0 {
        messages.push(format!(
            "and {more} more keys hold something else (`fold.quarantined_keys`)"
        ));
    }
    messages
}

// Of several warnings with the same text after the first colon, `condition::texts` keeps only one. The key comes after
// this colon, so that each key keeps its warning.
fn refusal(Problem { key, reason, .. }: &Problem) -> String {
    format!(
        "data for a key is omitted: {key} holds something else ({reason}); delete the key, and look for the \
         other program that writes it"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::condition::conditions;
    use crate::store::{NewerEntry, SilentInstance};

    #[test]
    fn the_warning_about_a_loss_ends_after_a_while_and_other_warnings_last() {
        let (clock, manual_clock) = Clock::manual(1_700_000_000);
        let notices = Notices::default();
        let conditions_of = |status: &StoreStatus| conditions(&status.warnings(&notices, &clock));
        let mut lost = StoreStatus {
            created: Some(1),
            journal: Some(JournalHealth::default()),
            ..StoreStatus::default()
        };
        lost.exceptions.skewed = 7;
        assert_eq!(conditions_of(&lost), []);

        let ongoing = StoreStatus {
            ranking_warnings: vec!["two configurations".into()],
            silent: vec![SilentInstance {
                name: "web-2".into(),
                seconds: 6,
            }],
            journal: Some(JournalHealth {
                oldest_age_seconds: Some(15.5),
                ..JournalHealth::default()
            }),
            newer: Some(NewerEntry {
                version: 2,
                readable: 1,
                waited: 5,
            }),
            ..lost.clone()
        };
        let all = {
            use Condition::*;
            [JournalWaits, NewerEntry, SilentInstance, RankingSpecs]
        };
        assert_eq!(conditions_of(&ongoing), all);
        assert_eq!(conditions_of(&lost), []);

        lost.exceptions.skewed = 8;
        lost.journal = Some(JournalHealth {
            set_aside: 1,
            hole_bytes: 1,
            orphaned: 1,
            ..JournalHealth::default()
        });
        let losses = {
            use Condition::*;
            [Skewed, SetAside, JournalHole, Orphaned]
        };
        assert_eq!(conditions_of(&lost), losses);
        manual_clock.advance(Duration::from_secs(599));
        assert_eq!(conditions_of(&lost), losses);
        manual_clock.advance(Duration::from_secs(1));
        assert_eq!(conditions_of(&lost), []);
    }
}
