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
/// Seconds after which the change of a new kind ends: since its start, and since the last error.
const LASTS: i64 = 3_600;
const UNSEEN: i64 = 900;

packed! {
    /// A kind of error that a judged minute had.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct SeenError {
        /// The start of the first minute with this kind, in Unix seconds.
        pub first: i64,
        /// The start of the last minute with this kind, in Unix seconds.
        pub last: i64,
        /// The change that this kind began, while it is ongoing.
        pub change: Option<NewError>,
    }

    /// The ongoing change of a new kind of error.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct NewError {
        /// The start of the minute in which the kind appeared, in Unix seconds.
        pub since: i64,
        /// The page that had most errors of this kind in that minute.
        pub context: RecordId,
        /// The number of the page's requests since then that had this kind.
        pub requests: u64,
        /// The number of all requests of the page since then.
        pub total: u64,
    }
}

/// The kinds of errors that judged minutes had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownErrors {
    /// At most 256 kinds, sorted by name. A further kind replaces the one that was not seen for longest.
    pub kinds: Vec<(Arc<str>, SeenError)>,
}

impl KnownErrors {
    /// Judges a minute that has ended. Returns the verdicts on new kinds that are ongoing at its end. `has_history` says
    /// whether enough was recorded before to call a kind new. Minutes must be in order.
    pub fn judge(&mut self, minute: &Minute<'_>, has_history: bool) -> Vec<Verdict> {
        let (start, mut ongoing) = (minute.start, 0);
        let since = |then: i64| start.saturating_sub(then);
        self.kinds
            .retain(|(_, seen)| since(seen.last) < FORGOTTEN_AFTER);
        for (_, seen) in &mut self.kinds {
            let last = seen.last;
            seen.change = seen
                .change
                .filter(|change| (0..LASTS).contains(&since(change.since)) && since(last) < UNSEEN);
            ongoing += usize::from(seen.change.is_some());
        }
        for (kind, (context, _)) in pages_with_most(minute) {
            let mut last = start.saturating_sub(NEW_AFTER);
            let is_known = self.kinds.iter().any(|(known, _)| *known == kind);
            if !is_known && self.kinds.len() >= MAX_KINDS {
                let places = 0..self.kinds.len();
                let oldest = places.min_by_key(|place| self.kinds[*place].1.last);
                let oldest = oldest.unwrap_or(0);
                if self.kinds[oldest].1.last >= start {
                    continue;
                }
                // A kind that was forgotten within a week cannot be told from a new one.
                last = last.max(self.kinds.remove(oldest).1.last);
            }
            let seen = sorted::entry(&mut self.kinds, kind, || SeenError {
                first: start,
                last,
                change: None,
            });
            if since(seen.last) >= NEW_AFTER && has_history && ongoing < MAX_ONGOING {
                ongoing += 1;
                seen.change = Some(NewError {
                    since: start,
                    context,
                    requests: 0,
                    total: 0,
                });
            }
            (seen.first, seen.last) = (seen.first.min(start), start);
        }
        let mut verdicts = Vec::new();
        for (kind, seen) in &mut self.kinds {
            let Some(change) = &mut seen.change else {
                continue;
            };
            let mut contexts = minute.contexts.iter();
            if let Some((_, sums)) = contexts.find(|(id, _)| *id == change.context) {
                let requests = sums.kinds.get(&**kind);
                change.requests = change.requests.saturating_add(requests);
                change.total = change.total.saturating_add(sums.times.count);
            }
            verdicts.push(change.verdict(kind, start));
        }
        verdicts
    }

    /// The packed kinds with their names.
    pub fn parts(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let kinds = self.kinds.iter();
        let parts = kinds.map(|(kind, seen)| (kind.as_bytes().to_vec(), pack(seen)));
        parts.collect()
    }

    /// The kinds of these parts. Parts that cannot be read are left out.
    pub fn from_parts<'a>(parts: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let parts = parts.filter_map(|(kind, seen)| {
            let kind = std::str::from_utf8(kind).ok()?;
            Some((Arc::from(kind), unpack(seen)?))
        });
        let mut kinds: Vec<(Arc<str>, SeenError)> = parts.collect();
        kinds.order_by(|(a, _), (b, _)| a.cmp(b));
        kinds.dedup_by(|(a, _), (b, _)| a == b);
        if kinds.len() > MAX_KINDS {
            keep_first(&mut kinds, MAX_KINDS, |(_, a), (_, b)| b.last.cmp(&a.last));
            kinds.order_by(|(a, _), (b, _)| a.cmp(b));
        }
        Self { kinds }
    }
}

/// The kinds of errors in a minute, each with the page that had most errors of this kind, and their number. Kinds that
/// are counted together as `<other>` are left out.
fn pages_with_most(minute: &Minute<'_>) -> Vec<(Arc<str>, (RecordId, u64))> {
    let mut pages = Vec::new();
    for (id, sums) in &minute.contexts {
        for (kind, count) in sums.kinds.iter() {
            let most = sorted::entry(&mut pages, kind.clone(), || (*id, 0));
            if count > most.1 {
                *most = (*id, count);
            }
        }
    }
    pages
}

impl NewError {
    fn verdict(&self, kind: &Arc<str>, start: i64) -> Verdict {
        let minutes = start.saturating_sub(self.since) / 60 + 1;
        Verdict {
            context: self.context,
            kind: ChangeKind::NewError,
            instance: None,
            error: Some(kind.clone()),
            since: self.since,
            detected: self.since.saturating_add(60),
            then: 0.0,
            now: self.requests as f64 / self.total.max(1) as f64,
            ratio: 1.0,
            is_tail: false,
            confidence: 1.0,
            requests: self.requests,
            minutes: minutes as u32,
            cost: Cost::default(),
            mean_then: 0.0,
            mean_now: 0.0,
        }
    }
}

#[cfg(test)]
mod tests;
