//! New kinds of errors: kinds that the service names for the first time, or again after a week.

use std::sync::Arc;

use super::change::ChangeKind;
use super::cost::Cost;
use super::minute::{Minute, Verdict};
use tower_pulse_model::order::{InOrder, keep_first};
use tower_pulse_model::pack::{pack, packed, unpack};
use tower_pulse_model::records::RecordId;
use tower_pulse_model::sorted;

/// The most kinds that are remembered.
const MAX_KINDS: usize = 256;
/// The most new kinds that are reported at the same time.
const MAX_ONGOING: usize = 10;
/// Seconds without an error of a kind after which the kind is new again.
const NEW_AFTER: i64 = 7 * 86_400;
/// Seconds without an error of a kind after which the kind is forgotten.
const FORGOTTEN_AFTER: i64 = 60 * 86_400;
/// The longest change of a new kind, in seconds.
const LASTS: i64 = 3_600;
/// Seconds without an error of a kind after which its change ends.
const UNSEEN: i64 = 900;

packed! {
    /// A kind of error that a judged minute had.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct SeenError {
        /// The start of the first minute with this kind, in Unix seconds.
        pub first: i64,
        /// The start of the last minute with this kind, in Unix seconds.
        pub last: i64,
        /// The page of the ongoing change that this kind began, if there is one.
        pub page: Option<RecordId>,
        /// The start of the change, in Unix seconds.
        pub since: i64,
        /// The page's errors of this kind since `since`.
        pub count: u64,
    }
}

/// The kinds of errors that judged minutes had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownErrors {
    /// At most 256 kinds, sorted by name.
    pub kinds: Vec<(Arc<str>, SeenError)>,
}

impl KnownErrors {
    /// Judges a minute that has ended. Returns the verdicts on new kinds that are ongoing at the end of the minute.
    /// `has_history` says whether the store has recorded for long enough to call a kind new. Minutes must be in order.
    pub fn judge(&mut self, minute: &Minute<'_>, has_history: bool) -> Vec<Verdict> {
        let (start, mut ongoing) = (minute.start, 0);
        let ago = |then: i64| start.saturating_sub(then);
        self.kinds.retain_mut(|(_, seen)| {
            let lasts = (0..LASTS).contains(&ago(seen.since)) && ago(seen.last) < UNSEEN;
            seen.page = seen.page.filter(|_| lasts);
            ongoing += usize::from(seen.page.is_some());
            ago(seen.last) < FORGOTTEN_AFTER
        });
        // If the kinds of this week fill the list, an unknown kind may be a known kind that had to make room.
        let kinds = self.kinds.iter();
        let of_week = kinds.filter(|(_, seen)| ago(seen.last) < NEW_AFTER);
        let may_be_new = has_history && of_week.count() < MAX_KINDS;
        for (id, sums) in &minute.contexts {
            for (kind, count) in sums.kinds.iter() {
                let seen = sorted::entry(&mut self.kinds, kind.clone(), || SeenError {
                    first: start,
                    last: start.saturating_sub(NEW_AFTER),
                    ..SeenError::default()
                });
                let is_first = seen.page.is_some() && seen.since == start;
                if ago(seen.last) >= NEW_AFTER && may_be_new && ongoing < MAX_ONGOING {
                    ongoing += 1;
                    (seen.page, seen.since, seen.count) = (Some(*id), start, count);
                } else if is_first && count > seen.count {
                    // In its first minute, the change moves to the page with the most errors of the kind.
                    (seen.page, seen.count) = (Some(*id), count);
                } else if !is_first && seen.page == Some(*id) {
                    seen.count = seen.count.saturating_add(count);
                }
                (seen.first, seen.last) = (seen.first.min(start), start);
            }
        }
        self.limit();
        let verdict = |(kind, seen): &(Arc<str>, SeenError)| {
            Some(Verdict {
                context: seen.page?,
                kind: ChangeKind::NewError,
                instance: None,
                error: Some(kind.clone()),
                since: seen.since,
                detected: seen.since.saturating_add(60),
                then: 0.0,
                now: seen.count as f64,
                ratio: 1.0,
                is_tail: false,
                confidence: 1.0,
                requests: seen.count,
                minutes: (ago(seen.since) / 60 + 1) as u32,
                cost: Cost::default(),
                mean_then: 0.0,
                mean_now: 0.0,
            })
        };
        self.kinds.iter().filter_map(verdict).collect()
    }

    /// Keeps the kinds of ongoing changes, and the kinds that were seen last.
    fn limit(&mut self) {
        let rank = |(_, seen): &(Arc<str>, SeenError)| (seen.page.is_some(), seen.last);
        keep_first(&mut self.kinds, MAX_KINDS, |a, b| rank(b).cmp(&rank(a)));
        self.kinds.order_by(|(a, _), (b, _)| a.cmp(b));
    }

    /// The packed kinds with their names.
    pub fn parts(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let part = |(kind, seen): &(Arc<str>, SeenError)| (kind.as_bytes().to_vec(), pack(seen));
        self.kinds.iter().map(part).collect()
    }

    /// The kinds of these parts. Parts that cannot be read are left out.
    pub fn from_parts<'a>(parts: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let kinds = parts.filter_map(|(kind, seen)| {
            Some((std::str::from_utf8(kind).ok()?.into(), unpack(seen)?))
        });
        let kinds = kinds.collect();
        let mut known = Self { kinds };
        known.limit();
        known
    }
}

#[cfg(test)]
mod tests;
