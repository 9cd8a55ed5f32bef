//! What a page did in the last hour, minute by minute, in few bytes.
//!
//! Histograms are stored at 8 buckets per octave, as pairs of the distance from the last bucket and the
//! count, each a variable-length integer: about 130 bytes for a minute of 1,000 requests.

use std::collections::VecDeque;

use crate::model::aggregate::Aggregate;
use crate::model::histogram::Histogram;

/// A minute: seconds of Unix time, divided by 60.
pub(super) type Tick = i32;

/// Minutes that are stored.
pub(super) const STORED: Tick = 76;

/// Buckets per octave are `2^SCALE`.
pub(super) const SCALE: u8 = 3;

/// Number of buckets at [`SCALE`].
pub(super) const BUCKETS: usize = 256;

/// The logarithm of the width of a bucket.
pub(super) const WIDTH: f64 = std::f64::consts::LN_2 / 8.0;

/// The minute that begins at `start`, in Unix seconds.
pub(super) fn tick(start: i64) -> Tick {
    let minute = start.div_euclid(60);
    // Half of the range remains for differences.
    minute.clamp(i64::from(Tick::MIN / 2), i64::from(Tick::MAX / 2)) as Tick
}

/// Counts by bucket.
pub(super) type Counts = [u32; BUCKETS];

/// What a page did in a minute, without its histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PageMinute {
    pub(super) tick: Tick,
    pub(super) requests: u32,
    pub(super) errors: u32,
    /// Of all requests.
    pub(super) seconds: f32,
    /// Of the packed histograms.
    bytes: u16,
}

/// The last minutes of a page, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    minutes: VecDeque<PageMinute>,
    packed: Vec<u8>,
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl History {
    /// Adds a minute that is later than all others.
    pub(super) fn push(&mut self, tick: Tick, sums: &Aggregate) {
        let mut packed = Vec::with_capacity(160);
        pack(&sums.successes(), &mut packed);
        pack(&sums.cut_off, &mut packed);
        self.minutes.push_back(PageMinute {
            tick,
            requests: narrow(sums.times.count),
            errors: narrow(sums.outcomes.errors.min(sums.times.count)),
            seconds: (sums.times.sum as f64 / 1e9) as f32,
            bytes: packed.len() as u16,
        });
        self.packed.extend(packed);
    }

    /// Removes minutes before `oldest`.
    pub(super) fn prune(&mut self, oldest: Tick) {
        let mut gone = 0;
        while let Some(first) = self.minutes.front().filter(|first| first.tick < oldest) {
            gone += usize::from(first.bytes);
            self.minutes.pop_front();
        }
        self.packed.drain(..gone);
        if self.packed.capacity() > 2 * self.packed.len() + 256 {
            self.packed.shrink_to(self.packed.len() + 128);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.minutes.is_empty()
    }

    pub(super) fn minutes(&self) -> &VecDeque<PageMinute> {
        &self.minutes
    }

    pub(super) fn last(&self) -> Option<&PageMinute> {
        self.minutes.back()
    }

    /// Calls `each` for the minutes since `from`, oldest first, with a reader of their histograms.
    pub(super) fn each(&self, from: Tick, mut each: impl FnMut(&PageMinute, Packed<'_>)) {
        let mut start = 0;
        for minute in &self.minutes {
            let end = start + usize::from(minute.bytes);
            if minute.tick >= from {
                each(minute, Packed(&self.packed[start..end]));
            }
            start = end;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.minutes.capacity() * size_of::<PageMinute>() + self.packed.capacity()
    }
}

/// The packed histograms of a minute.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a>(&'a [u8]);

impl Packed<'_> {
    /// Calls `each` with bucket, count and whether the requests were cut off.
    pub(super) fn buckets(self, mut each: impl FnMut(usize, u32, bool)) {
        let mut bytes = self.0.iter().copied();
        for cut_off in [false, true] {
            let pairs = read(&mut bytes);
            let mut bucket = 0usize;
            for _ in 0..pairs {
                bucket += read(&mut bytes) as usize;
                each(bucket.min(BUCKETS - 1), read(&mut bytes), cut_off);
            }
        }
    }
}

/// Appends a histogram: the number of its buckets, then for each the distance from the one before and the count.
fn pack(histogram: &Histogram, bytes: &mut Vec<u8>) {
    let mut buckets: Vec<(u16, u32)> = Vec::with_capacity(histogram.buckets().len());
    for (index, count) in histogram.buckets() {
        let index = match histogram.scale() {
            scale if scale >= SCALE => u32::from(*index) >> (scale - SCALE).min(16),
            scale => (u32::from(*index) << (SCALE - scale)) + (1 << (SCALE - scale)) / 2,
        };
        let index = index.min(BUCKETS as u32 - 1) as u16;
        match buckets.last_mut() {
            Some((last, sum)) if *last == index => *sum = sum.saturating_add(narrow(*count)),
            _ => buckets.push((index, narrow(*count))),
        }
    }
    write(buckets.len() as u32, bytes);
    let mut before = 0;
    for (index, count) in buckets {
        write(u32::from(index - before), bytes);
        write(count, bytes);
        before = index;
    }
}

fn write(mut number: u32, bytes: &mut Vec<u8>) {
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut impl Iterator<Item = u8>) -> u32 {
    let (mut number, mut shift) = (0u32, 0);
    for byte in bytes {
        number |= u32::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 || shift > 28 {
            break;
        }
    }
    number
}
