//! What the status of a store says for health: the same from an instance and from who only reads.

use super::journal::NEWER_GRACE;
use super::{JournalStatus, StoreStatus};
use crate::health::{FoldHealth, JournalHealth, shown_name};
use tower_pulse_model::snapshot::Problem;

/// Seconds for which an entry may wait to be folded before that is a warning.
const UNFOLDED_TOLERATED: f64 = 15.0;

impl StoreStatus {
    /// Folding, in a process that is the folder or not.
    pub fn fold_health(&self, is_folder: bool) -> FoldHealth {
        let journal = self.journal.as_ref().map(|journal| JournalHealth {
            entries: journal.entries,
            bytes: journal.bytes,
            oldest_age_seconds: journal.oldest_age,
            folder: journal.folder.as_deref().map(shown_name),
            is_folder,
            last_fold_seconds: journal.last_fold,
            set_aside: journal.set_aside,
            hole_bytes: journal.hole_bytes,
            orphaned: journal.orphaned,
        });
        FoldHealth {
            late: self.exceptions.late,
            skewed: self.exceptions.skewed,
            quarantined: self.exceptions.quarantined,
            quarantined_keys: self.exceptions.quarantined_keys.clone(),
            journal,
        }
    }

    /// What the operator should know about rankings and the journal.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.ranking_warnings.clone();
        warnings.extend(self.journal.iter().flat_map(journal_warnings));
        warnings.extend(self.key_warnings());
        warnings
    }

    /// What the operator should know about keys that another program has written, deleted or evicted.
    fn key_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        // In one process a sum may be too large, which cannot be mended.
        if self.journal.is_some() {
            warnings = refusals(&self.exceptions.quarantined_keys);
        }
        if !self.gone.is_empty() {
            warnings.push(format!(
                "tables of records are gone, and with them the requests of their slices: {} (the key ends in the seconds \
                 and the start of its slice); somebody deleted them (look for DEL), or the server evicted them (set \
                 maxmemory-policy to noeviction)",
                self.gone
            ));
        }
        warnings
    }
}

/// Sentences that are made of keys which hold something else.
const MAX_REFUSALS: usize = 5;

/// What is dropped for keys that hold something else, in a few sentences.
pub(crate) fn refusals(keys: &[Problem]) -> Vec<String> {
    let told = keys.iter().rev().take(MAX_REFUSALS);
    let mut told: Vec<_> = told.map(refusal).collect();
    let more = keys.len().saturating_sub(MAX_REFUSALS);
    if more > 0 {
        told.push(format!(
            "and {more} more keys hold something else (`fold.quarantined_keys`)"
        ));
    }
    told
}

// The key stands behind the first colon: warnings that say the same there have one cause.
fn refusal(Problem { key, reason, .. }: &Problem) -> String {
    format!(
        "what belongs into a key is dropped: {key} holds something else ({reason}); delete the key, and look for the \
         other program that writes it"
    )
}

fn journal_warnings(journal: &JournalStatus) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(age) = journal.oldest_age.filter(|age| *age > UNFOLDED_TOLERATED) {
        warnings.push(format!(
            "the journal's oldest entry has waited for {age:.0} s to be folded: what is newer is not shown yet"
        ));
    }
    if let Some(newer) = &journal.newer {
        warnings.push(format!(
            "the journal waits at an entry of version {}, which a newer version of tower-pulse wrote, and this \
             instance reads versions up to {}: what is behind it is not shown. Start an instance of the newer \
             version, which folds it; after {} s more without one, such entries are set aside (`pulse:aside`)",
            newer.version,
            newer.readable,
            NEWER_GRACE.unsigned_abs().saturating_sub(newer.waited)
        ));
    }
    for (n, what) in [
        (
            journal.set_aside,
            "requests are in entries that nobody could read (`pulse:aside`), or that came while `pulse:state` was away",
        ),
        (
            journal.hole_bytes,
            "bytes of the journal were gone before they were folded",
        ),
        (
            journal.orphaned,
            "entries were in a journal without its state (`pulse:orphaned`)",
        ),
    ] {
        if n > 0 {
            warnings.push(format!("{n} {what}"));
        }
    }
    warnings
}
