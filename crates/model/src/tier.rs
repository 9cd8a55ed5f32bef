//! The tiers of the records, and how slices of the coarser tiers are built from slices that have ended.
//!
//! Samples are added to the record of their slice in the [`FINEST`] tier. Once that slice has ended, its records are
//! added to the records of the coarser tiers: the slice is *rolled up*. Later samples are added to all tiers at once.
//! [`RolledUp`] tracks which slices are rolled up.

use super::pack::packed;
use super::slice::{HOUR, Precision, latest_accepted};
use super::sorted::Set;

/// The tiers, finest first: two hours by the minute, two days by the half hour, and two weeks by six hours. Each tier
/// covers a window and the window before it, so that both can be compared.
pub const TIERS: [Precision; 3] = [
    FINEST,
    Precision::new(1_800, 98),
    Precision::new(21_600, 60),
];

/// The tier to which all samples are added first.
pub const FINEST: Precision = Precision::new(60, 130);

/// The tier with the longest retention without a [history](super::tiers::History).
pub const COARSEST: Precision = TIERS[TIERS.len() - 1];

/// The length, in seconds, of the slices of a [history](super::tiers::History).
pub const DAY: u32 = 86_400;

/// The slice lengths that readers can ask for, in seconds: those of the tiers and some multiples.
pub const WIDTHS: [u32; 6] = [60, 300, 1_800, 3_600, 21_600, DAY];

/// Seconds from the end of a slice until the slice is rolled up. Samples that arrive within this time are added only to
/// the finest tier.
const GRACE: i64 = 15;
/// Additional seconds until a slice is rolled up even if no samples arrive.
const OVERDUE: i64 = 180;

/// The length of a tier's slices in seconds, and the start of one of them.
pub type TierSlice = (u32, i64);

/// A number that changes with the content of a slice.
pub type Revision = u64;

/// The coarsest tier whose slices can be combined into slices of this length.
pub fn tier_for(width: u32) -> Option<Precision> {
    let mut tiers = TIERS.into_iter().rev();
    tiers.find(|tier| width >= tier.seconds && width.is_multiple_of(tier.seconds))
}

/// Whether the histograms of a tier have the coarse scale.
pub fn is_coarse(seconds: u32) -> bool {
    i64::from(seconds) >= HOUR
}

/// The state of rolling up: which slices of the finest tier are part of the coarser tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledUp {
    /// Slices that begin before this time are part of the coarser tiers, except the pending ones.
    until: i64,
    /// Slices that have records and are not yet rolled up, or are rolled up for only some contexts.
    pending: Set,
}

impl Default for RolledUp {
    fn default() -> Self {
        Self {
            until: i64::MIN,
            pending: Set::default(),
        }
    }
}

impl RolledUp {
    /// Slices that begin before this time are part of the coarser tiers, once no slice is [`due`](Self::due).
    pub fn until(&self) -> i64 {
        self.until
    }

    /// The slices that ended at least 15 seconds before `now` become due. An earlier `now` changes nothing.
    ///
    /// The first call makes every retained slice pending, because an earlier state may have been lost. No sample counts
    /// twice, because each coarser record says which slices it includes.
    pub fn advance(&mut self, now: i64) {
        let until = FINEST.slice(now.saturating_sub(GRACE));
        if self.is_new() {
            let width = i64::from(FINEST.seconds);
            let first = FINEST.slice(FINEST.cutoff(until)).saturating_add(width);
            let retained = first..=FINEST.slice(latest_accepted(now));
            self.pending
                .extend(retained.step_by(FINEST.seconds as usize));
        }
        self.until = self.until.max(until);
    }

    /// Moves the end of the rolled-up slices back, if a clock that was ahead has moved the end too far. Coarser records
    /// that were written with the wrong end claim to include every slice before this end, so a roll-up would skip these
    /// slices. Samples that are accepted at `now` must therefore still be added to all tiers at once: the new end is
    /// the end of the day of the latest accepted sample.
    pub fn limit(&mut self, now: i64) {
        let day = Precision::new(DAY, 1);
        let newest = day.slice(latest_accepted(now));
        let end = newest.saturating_add(i64::from(DAY));
        self.until = self.until.min(end);
    }

    /// The slices that must be rolled up before any entry is folded, oldest first.
    pub fn due(&self) -> impl Iterator<Item = i64> {
        self.pending.below(self.until).iter().copied()
    }

    /// Whether a slice has waited so long that it must be rolled up although no entry arrives.
    pub fn is_overdue(&self, now: i64) -> bool {
        let oldest = FINEST.slice(now.saturating_sub(GRACE + OVERDUE));
        !self.is_new() && !self.pending.below(oldest).is_empty()
    }

    /// Whether [`advance`](Self::advance) was never called.
    pub fn is_new(&self) -> bool {
        self.until == i64::MIN
    }

    /// Notes that a slice holds no records.
    pub fn remove(&mut self, slice: i64) {
        self.pending.remove(slice);
    }

    /// Notes that all due slices have been rolled up.
    pub fn finish(&mut self) {
        self.pending.remove_below(self.until);
    }

    /// Notes that records are added to a slice.
    pub fn add(&mut self, slice: i64) {
        if slice >= self.until {
            self.pending.insert(slice);
        }
    }

    /// The slices with records that are perhaps not rolled up yet, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = i64> {
        self.pending.iter().copied()
    }

    /// Whether a slice has records that are perhaps not rolled up yet.
    pub fn is_pending(&self, slice: i64) -> bool {
        self.pending.binary_search(&slice).is_ok()
    }

    /// Whether additions to this slice must be added to the coarser tiers too.
    pub fn contains(&self, slice: i64) -> bool {
        slice < self.until
    }
}

packed!(RolledUp { until, pending });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{from_hex, to_hex};

    #[test]
    fn each_width_has_a_tier_that_divides_it() {
        let tiers = WIDTHS.map(|width| tier_for(width).map(|tier| tier.seconds));
        assert_eq!(tiers, [60, 60, 1_800, 1_800, 21_600, 21_600].map(Some));
        assert_eq!([0, 5, 90].map(tier_for), [None; 3]);
    }

    #[test]
    fn an_end_that_a_clock_has_moved_far_ahead_is_moved_back() {
        let now = 1_000_000_040;
        let mut rolled = RolledUp::default();
        rolled.limit(now);
        assert!(rolled.is_new());
        rolled.advance(now);
        rolled.finish();
        let before = rolled.clone();
        // A clock that is half an hour behind, or an hour ahead, changes nothing.
        for at in [now, now - 1_800, now + HOUR] {
            rolled.limit(at);
            assert_eq!(rolled, before);
        }
        for ahead in [86_400, 365 * 86_400] {
            rolled.advance(now + ahead);
            rolled.finish();
            rolled.limit(now);
            let until = rolled.until();
            assert!((now + HOUR..=now + 26 * HOUR).contains(&until), "{until}");
            assert_eq!(TIERS.map(|tier| tier.slice(until)), [until; 3]);
            assert_eq!(Precision::new(DAY, 1).slice(until), until);
            rolled.add(until);
            rolled.advance(until + 60 + GRACE);
            assert_eq!(rolled.due().collect::<Vec<_>>(), [until]);
        }
    }

    #[test]
    fn a_slice_is_overdue_when_no_entry_has_rolled_it_up_for_three_minutes() {
        let minute = FINEST.slice(1_000_000_040);
        let overdue = minute + 60 + GRACE + OVERDUE;
        let mut rolled = RolledUp::default();
        rolled.add(minute);
        assert!(!rolled.is_overdue(overdue), "the first entry rolls it up");
        rolled.advance(minute);
        rolled.finish();
        for slice in (minute - 60..=minute + HOUR).step_by(60) {
            rolled.remove(slice);
        }
        assert!(!rolled.is_overdue(overdue), "no slice holds records");
        rolled.add(minute);
        assert!(!rolled.is_overdue(overdue - 1));
        assert!(rolled.is_overdue(overdue));
        rolled.advance(overdue);
        rolled.finish();
        assert!(!rolled.is_overdue(overdue + HOUR), "all is rolled up");
    }

    #[test]
    fn slices_are_due_once_they_have_ended_and_an_earlier_time_changes_nothing() {
        let mut rolled = RolledUp::default();
        rolled.advance(1_000_000_040);
        let minute = FINEST.slice(1_000_000_040);
        let due: Vec<_> = rolled.due().collect();
        let expected: Vec<_> = (1..=129).rev().map(|ago| minute - 60 * ago).collect();
        assert_eq!(due, expected);
        for slice in (minute + 60..=latest_accepted(1_000_000_040)).step_by(60) {
            assert!(rolled.is_pending(slice));
            rolled.remove(slice);
        }
        rolled.finish();
        rolled.add(minute - 60);
        let is_pending = rolled.is_pending(minute - 60);
        assert!(!is_pending, "its records go to all tiers at once");
        assert_eq!(rolled.pending().collect::<Vec<_>>(), [minute]);
        rolled.add(minute);
        rolled.add(minute + 60);
        rolled.advance(minute + 60 + GRACE - 1);
        assert_eq!(rolled.due().count(), 0);
        rolled.advance(minute + 60 + GRACE);
        assert_eq!(rolled.due().collect::<Vec<_>>(), [minute]);
        rolled.advance(0);
        assert!(rolled.contains(minute) && !rolled.contains(minute + 60));
        assert_eq!(from_hex(&to_hex(&rolled)).as_ref(), Some(&rolled));
        rolled.finish();
        assert_eq!(rolled.pending().collect::<Vec<_>>(), [minute + 60]);
        assert_eq!(from_hex(&to_hex(&rolled)), Some(rolled));
        for text in ["", "x", "00", "0g00", "0", "é"] {
            assert_eq!(from_hex::<RolledUp>(text), None);
        }
    }
}
