//! How much of each of the last hours a store has recorded. An hour in which a context had no requests counts in its
//! profile only if the hour was recorded.

use std::collections::VecDeque;

use super::pack::{Packed, Reader, Writer};
use super::slice::{HOUR, hour_of};

/// The minutes of an hour.
pub const MINUTES: u8 = 60;

/// The number of hours that are kept: ten weeks, the longest time for which a store keeps a profile without a new
/// sample.
pub const HOURS_KNOWN: usize = 10 * 7 * 24;

/// How much of each of the last hours was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedHours {
    until: i64,
    /// The recorded minutes of each hour, oldest first.
    minutes: VecDeque<u8>,
}

impl RecordedHours {
    /// No hours yet; `hour` may be the first one.
    pub fn beginning_at(hour: i64) -> Self {
        Self {
            until: hour,
            minutes: VecDeque::new(),
        }
    }

    /// The end of the last hour, in Unix seconds.
    pub fn until(&self) -> i64 {
        self.until
    }

    /// The start of the first hour, in Unix seconds.
    pub fn since(&self) -> i64 {
        // There are at most `HOURS_KNOWN` hours, so the product cannot overflow.
        self.until.saturating_sub(self.minutes.len() as i64 * HOUR)
    }

    /// The recorded minutes of an hour; 0 if the hour is not known.
    pub fn minutes(&self, hour: i64) -> u8 {
        let after = hour.saturating_sub(self.since()).div_euclid(HOUR);
        let at = usize::try_from(after).ok();
        at.and_then(|at| self.minutes.get(at)).map_or(0, |m| *m)
    }

    /// Adds an hour after the others. Hours in between count as not recorded; a known hour is not changed.
    pub fn push(&mut self, hour: i64, minutes: u8) {
        if hour >= self.until {
            self.skip_to(hour);
            self.add(minutes.min(MINUTES));
        }
    }

    /// Adds the missing hours before this one as not recorded.
    pub fn skip_to(&mut self, hour: i64) {
        if hour.saturating_sub(self.until) >= HOURS_KNOWN as i64 * HOUR {
            *self = Self::beginning_at(hour);
        }
        while self.until < hour {
            self.add(0);
        }
    }

    fn add(&mut self, minutes: u8) {
        self.minutes.push_back(minutes);
        self.until += HOUR;
        if self.minutes.len() > HOURS_KNOWN {
            self.minutes.pop_front();
        }
    }

    /// Removes the hours from `end` on, which were added because a clock was ahead.
    pub fn take_back(&mut self, end: i64) {
        while self.until > end && self.minutes.pop_back().is_some() {
            self.until -= HOUR;
        }
        self.until = self.until.min(end);
    }
}

/// Consecutive hours with the same number of minutes are packed as one run. Usually there are few runs.
impl Packed for RecordedHours {
    fn write(&self, out: &mut Writer) {
        out.int(self.until);
        let (first, second) = self.minutes.as_slices();
        let all = [first, second].concat();
        for run in all.chunk_by(|a, b| a == b) {
            out.0.push(run[0]);
            out.uint(run.len() as u64);
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let until = from.int()?;
        let mut hours = Self::beginning_at((hour_of(until) == until).then_some(until)?);
        while !from.0.is_empty() {
            let minutes = from.byte().filter(|minutes| *minutes <= MINUTES)?;
            let count = usize::try_from(from.uint()?).ok()?;
            let room = HOURS_KNOWN - hours.minutes.len();
            let run = std::iter::repeat_n(minutes, (count <= room).then_some(count)?);
            hours.minutes.extend(run);
        }
        Some(hours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{pack, unpack};
    use proptest::collection::vec;
    use proptest::prelude::*;

    const START: i64 = 470_000 * HOUR;

    #[test]
    fn hours_between_pushed_hours_were_not_recorded() {
        let mut hours = RecordedHours::beginning_at(START);
        hours.push(START, 60);
        hours.push(START + 3 * HOUR, 30);
        hours.push(START, 7);
        let minutes: Vec<_> = (-2..6).map(|at| hours.minutes(START + at * HOUR)).collect();
        assert_eq!(minutes, [0, 0, 60, 0, 0, 30, 0, 0]);
        assert_eq!((hours.since(), hours.until()), (START, START + 4 * HOUR));
        hours.take_back(START + 2 * HOUR);
        assert_eq!((hours.since(), hours.until()), (START, START + 2 * HOUR));
        hours.take_back(START - HOUR);
        assert_eq!(hours, RecordedHours::beginning_at(START - HOUR));
    }

    #[test]
    fn the_number_of_known_hours_is_bounded() {
        let mut hours = RecordedHours::beginning_at(START);
        for at in 0..2_000 {
            hours.push(START + at * HOUR, 60);
        }
        assert_eq!(hours.minutes.len(), HOURS_KNOWN);
        assert_eq!(hours.until(), START + 2_000 * HOUR);
        // Five bytes for the end, one for the minutes of the only run, and two for its length.
        assert_eq!(pack(&hours).len(), 8);
        // Years later, all known hours are dropped at once.
        hours.push(START + 100_000_000 * HOUR, 60);
        assert_eq!(hours.minutes.len(), 1);
    }

    proptest! {
        #[test]
        fn packed_hours_are_read_back(pushed in vec((0..40i64, 0..=60u8), 0..200)) {
            let mut hours = RecordedHours::beginning_at(START);
            for (gap, minutes) in pushed {
                hours.push(hours.until() + gap * HOUR, minutes);
            }
            prop_assert_eq!(unpack::<RecordedHours>(&pack(&hours)), Some(hours));
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_give_a_bounded_number_of_hours(bytes in vec(any::<u8>(), 0..40)) {
            if let Some(mut hours) = unpack::<RecordedHours>(&bytes) {
                prop_assert!(hours.minutes.len() <= HOURS_KNOWN);
                let until = hours.until();
                for at in [i64::MIN, until - HOUR, until, i64::MAX] {
                    hours.minutes(at);
                }
                hours.take_back(START);
                prop_assert!(hours.until() <= START);
            }
        }
    }
}
