//! The hour-of-week profile of a context: its usual requests, errors and durations in each hour of the week. The
//! profile is built from the records of hours that have ended, and outlives these records. Each further whole week
//! multiplies the weight of the weeks before by 3/4.
//!
//! Hours are in UTC, which has no daylight saving time, so each week has 168 of them.

use super::aggregate::Aggregate;
use super::pack::{Packed, Reader, Writer};
use super::recorded_hours::{MINUTES, RecordedHours};
use super::slice::{HOUR, hour_of};

/// The hours of a week.
pub const WEEK_HOURS: usize = 168;

/// The share of an hour's sums that is dropped when another week is added.
const DECAY: f64 = 0.25;

/// The hours from the Unix epoch to the first Monday, 1970-01-05.
const FIRST_MONDAY: i64 = 4 * 24;

/// The unit of a packed weight, in weeks: the largest weight, 4, fits into two bytes.
const WEIGHT_UNIT: f64 = 1.0 / 16_000.0;

/// The hour-of-week profile of a context.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    until: i64,
    hours: Box<[ProfileHour; WEEK_HOURS]>,
}

/// An hour of the week. All fields but `weeks` are sums over the weeks. Before a whole hour is added, each sum is
/// multiplied by 3/4.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProfileHour {
    /// The number of weeks in which the hour was recorded, wholly or in part; at most 255.
    pub weeks: u8,
    /// The weighted number of weeks: an hour that was recorded in part counts as that part. At most 4.
    pub weight: f64,
    /// The number of requests.
    pub requests: f64,
    /// The number of errors.
    pub errors: f64,
    /// The sum of the durations, in seconds.
    pub seconds: f64,
    /// The sum over the weeks of the 95th percentile, in seconds, times the number of requests.
    pub tail_seconds: f64,
}

impl Profile {
    /// The profile of a context whose first request is in this hour.
    pub fn beginning_at(hour: i64) -> Self {
        Self {
            until: hour,
            hours: Box::new([ProfileHour::default(); WEEK_HOURS]),
        }
    }

    /// The start of the first hour that is not applied yet, in Unix seconds.
    pub fn until(&self) -> i64 {
        self.until
    }

    /// The hours of the week, Monday 00:00 UTC first.
    pub fn hours(&self) -> &[ProfileHour] {
        &*self.hours
    }

    /// Applies an hour with requests, and the hours without requests before it. `recorded` must end after `hour`.
    /// Returns `false` if the hour was applied before.
    pub fn apply(&mut self, hour: i64, samples: &Aggregate, recorded: &RecordedHours) -> bool {
        if self.until > hour {
            return false;
        }
        self.apply_idle(hour, recorded);
        // An hour with requests was recorded at least in part, even if `recorded` has no minutes of it.
        let minutes = recorded.minutes(hour).max(1);
        self.hours[hour_of_week(hour)].add(part_of(minutes), Some(samples));
        self.until = hour.saturating_add(HOUR);
        true
    }

    /// Allows the hours from this one on to be applied again, after a clock that was ahead has applied them too early.
    pub fn reopen_from(&mut self, hour: i64) {
        self.until = self.until.min(hour);
    }

    /// Applies the hours before `end` that are not applied yet, as hours without requests. Hours that were not recorded
    /// change nothing.
    pub fn apply_idle(&mut self, end: i64, recorded: &RecordedHours) {
        let mut hour = self.until.max(recorded.since());
        while hour < end.min(recorded.until()) {
            let minutes = recorded.minutes(hour);
            if minutes > 0 {
                self.hours[hour_of_week(hour)].add(part_of(minutes), None);
            }
            hour += HOUR;
        }
        self.until = self.until.max(end);
    }
}

impl ProfileHour {
    /// Adds the same hour of another week. `part` is the recorded part of the hour, 1 for all of it.
    fn add(&mut self, part: f64, samples: Option<&Aggregate>) {
        let sums = [
            &mut self.weight,
            &mut self.requests,
            &mut self.errors,
            &mut self.seconds,
            &mut self.tail_seconds,
        ];
        for sum in sums {
            *sum *= 1.0 - DECAY * part;
        }
        self.weeks = self.weeks.saturating_add(1);
        self.weight += part;
        if let Some(samples) = samples {
            let (requests, seconds) = (samples.times.count as f64, samples.times.sum as f64 / 1e9);
            self.requests += requests;
            self.errors += samples.outcomes.errors as f64;
            self.seconds += seconds;
            self.tail_seconds += tail(samples).map_or(seconds, |tail| tail * requests);
        }
    }

    /// Requests per recorded hour; `None` if the hour was never recorded.
    pub fn requests_per_hour(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.requests / self.weight)
    }

    /// Errors per recorded hour; `None` if the hour was never recorded.
    pub fn errors_per_hour(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.errors / self.weight)
    }

    /// The mean duration in seconds; `None` without requests.
    pub fn mean(&self) -> Option<f64> {
        (self.requests > 0.0).then(|| self.seconds / self.requests)
    }

    /// The mean over the weeks of the 95th percentile, in seconds, weighted by requests; `None` without requests.
    pub fn tail(&self) -> Option<f64> {
        (self.requests > 0.0).then(|| self.tail_seconds / self.requests)
    }
}

fn tail(samples: &Aggregate) -> Option<f64> {
    let bound = |nanos: u64| Some(nanos as f64 / 1e9);
    let (min, max) = (bound(samples.times.min), bound(samples.times.max));
    samples.histogram.quantile_within(0.95, min, max)
}

/// The number of an hour within its week: 0 for Monday 00:00 to 01:00 UTC.
pub fn hour_of_week(unix_seconds: i64) -> usize {
    let hours = hour_of(unix_seconds).div_euclid(HOUR) - FIRST_MONDAY;
    hours.rem_euclid(WEEK_HOURS as i64) as usize
}

fn part_of(minutes: u8) -> f64 {
    f64::from(minutes) / f64::from(MINUTES)
}

impl Packed for Profile {
    fn write(&self, out: &mut Writer) {
        out.int(self.until);
        self.hours.iter().for_each(|hour| hour.write(out));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let until = from.int()?;
        let mut profile = Self::beginning_at((hour_of(until) == until).then_some(until)?);
        for hour in profile.hours.iter_mut() {
            *hour = ProfileHour::read(from)?;
        }
        Some(profile)
    }
}

/// An hour that was never recorded takes one byte.
impl Packed for ProfileHour {
    fn write(&self, out: &mut Writer) {
        out.0.push(self.weeks);
        if self.weeks == 0 {
            return;
        }
        // The weight is at most 4, and a cast saturates.
        let weight = (self.weight / WEIGHT_UNIT).round() as u16;
        out.0.extend_from_slice(&weight.to_be_bytes());
        for sum in [self.requests, self.errors, self.seconds, self.tail_seconds] {
            write_float(out, sum);
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let weeks = from.byte()?;
        if weeks == 0 {
            return Some(Self::default());
        }
        let weight = u16::from_be_bytes([from.byte()?, from.byte()?]);
        Some(Self {
            weeks,
            weight: f64::from(weight) * WEIGHT_UNIT,
            requests: read_float(from)?,
            errors: read_float(from)?,
            seconds: read_float(from)?,
            tail_seconds: read_float(from)?,
        })
    }
}

/// The number of mantissa bits of a single-precision float that are not packed. The mantissa keeps 16 bits: the
/// relative error is below 1e-5.
const DROPPED_BITS: u32 = 7;

/// Writes a number that is not negative as three bytes.
fn write_float(out: &mut Writer, number: f64) {
    let most = f32::from_bits(f32::MAX.to_bits() >> DROPPED_BITS << DROPPED_BITS);
    let bits = (number as f32).clamp(0.0, most).to_bits();
    // Rounding cannot set the sign bit, nor reach infinity, because `most` needs no rounding.
    let rounded = (bits + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS;
    out.0.extend_from_slice(&rounded.to_be_bytes()[1..]);
}

fn read_float(from: &mut Reader<'_>) -> Option<f64> {
    let bits = u32::from_be_bytes([0, from.byte()?, from.byte()?, from.byte()?]);
    let number = f32::from_bits(bits << DROPPED_BITS);
    (number.is_finite() && number >= 0.0).then_some(f64::from(number))
}

#[cfg(test)]
mod tests;
