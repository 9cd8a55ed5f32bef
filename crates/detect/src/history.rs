//! The last 76 minutes of a page, in few bytes.
//!
//! Histograms are stored at 8 buckets per octave, as variable-length integers: about 80 bytes for a minute of 1,000
//! requests.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::change::ChangeKind;
use super::minute::failed;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::histogram::Histogram;
use tower_pulse_model::pack::{Reader, Writer};

/// A minute: seconds of Unix time, divided by 60.
pub(crate) type Tick = i32;

/// The number of minutes that are stored.
pub(crate) const STORED: Tick = 76;

/// The number of minutes after which the past of a page is renewed.
pub(crate) const RENEWED: Tick = 5;

/// Buckets per octave are `2^SCALE`.
pub(crate) const SCALE: u8 = 3;

pub(crate) const BUCKETS: usize = 256;

/// The width of a bucket, as a logarithm of time.
pub(crate) const WIDTH: f64 = std::f64::consts::LN_2 / 8.0;

/// The minute that begins at `start`, in Unix seconds.
pub(crate) fn tick(start: i64) -> Tick {
    let minute = start.div_euclid(60);
    // Half of the range is left free, so that differences do not overflow.
    minute.clamp(i64::from(Tick::MIN / 2), i64::from(Tick::MAX / 2)) as Tick
}

/// A range of minutes, both ends included.
pub(crate) type Span = (Tick, Tick);

pub(crate) fn is_in(spans: &[Span], tick: Tick) -> bool {
    let mut spans = spans.iter();
    spans.any(|(from, to)| (*from..=*to).contains(&tick))
}

pub(crate) type Counts = [u32; BUCKETS];

/// The figures of a page in a minute, without its histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PageMinute {
    pub(crate) tick: Tick,
    pub(crate) requests: u32,
    pub(crate) errors: u32,
    /// 4xx that are not errors.
    pub(crate) refused: u32,
    /// The time of all requests.
    pub(crate) seconds: f32,
    /// The length of the packed histograms.
    bytes: u16,
}

/// Minutes of a page, oldest first.
pub(crate) type Minutes = VecDeque<PageMinute>;

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) minutes: Minutes,
    packed: Vec<u8>,
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl History {
    /// Adds a minute that is later than all others.
    pub(crate) fn push(&mut self, tick: Tick, sums: &Aggregate) {
        let mut out = Writer(Vec::with_capacity(160));
        pack(&sums.successes(), &mut out);
        pack(&sums.censored, &mut out);
        let packed = out.0;
        // The capacity grows in small steps: doubling it would take most of the detector's memory.
        if self.minutes.len() == self.minutes.capacity() {
            let more = (self.minutes.len() / 2).clamp(4, 24);
            self.minutes.reserve_exact(more);
        }
        if self.packed.capacity() < self.packed.len() + packed.len() {
            self.packed
                .reserve_exact(packed.len() + self.packed.len() / 16);
        }
        let failed = |kind| narrow(failed(kind, sums).min(sums.times.count));
        self.minutes.push_back(PageMinute {
            tick,
            requests: narrow(sums.times.count),
            errors: failed(ChangeKind::Failing),
            refused: failed(ChangeKind::Refusing),
            seconds: (sums.times.sum as f64 / 1e9) as f32,
            bytes: packed.len() as u16,
        });
        self.packed.extend(packed);
    }

    pub(crate) fn prune(&mut self, oldest: Tick) {
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

    /// The minutes. For `Refusing`, `errors` has the numbers of 4xx.
    pub(crate) fn minutes_for(&self, kind: ChangeKind) -> Cow<'_, Minutes> {
        if kind != ChangeKind::Refusing {
            return Cow::Borrowed(&self.minutes);
        }
        let minutes = self.minutes.iter().map(|minute| PageMinute {
            errors: minute.refused,
            ..*minute
        });
        Cow::Owned(minutes.collect())
    }

    pub(crate) fn last(&self) -> Option<&PageMinute> {
        self.minutes.back()
    }

    /// Calls `each` for the minutes since `from`, oldest first, with a reader of their histograms.
    pub(crate) fn each(&self, from: Tick, mut each: impl FnMut(&PageMinute, PackedMinute<'_>)) {
        let mut start = 0;
        for minute in &self.minutes {
            let end = start + usize::from(minute.bytes);
            if minute.tick >= from {
                each(minute, PackedMinute(&self.packed[start..end]));
            }
            start = end;
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct PackedMinute<'a>(&'a [u8]);

impl PackedMinute<'_> {
    /// Calls `each` with the bucket, its count and whether its requests were *censored*, which means cut off.
    pub(crate) fn buckets(self, mut each: impl FnMut(usize, u32, bool)) {
        let mut bytes = Reader(self.0);
        // Only `pack` writes these bytes.
        let mut read = || bytes.uint().unwrap_or(0);
        for censored in [false, true] {
            let length = read() as usize;
            if length == 0 {
                continue;
            }
            let mut bucket = read() as usize;
            let end = bucket + length;
            while bucket < end {
                match read() {
                    0 => bucket += read() as usize + 1,
                    count => {
                        each(bucket.min(BUCKETS - 1), count as u32, censored);
                        bucket += 1;
                    }
                }
            }
        }
    }
}

/// Appends a histogram: the number of buckets from the first used one to the last, the index of the first, and the
/// counts. A count of 0 is followed by the number of further zeros.
fn pack(histogram: &Histogram, out: &mut Writer) {
    let mut counts = [0u32; BUCKETS];
    let (mut first, mut last) = (BUCKETS, 0);
    for (index, count) in histogram.buckets() {
        let index = match histogram.scale() {
            scale if scale >= SCALE => usize::from(*index) >> (scale - SCALE).min(16),
            scale => (usize::from(*index) << (SCALE - scale)) + (1 << (SCALE - scale)) / 2,
        };
        let index = index.min(BUCKETS - 1);
        counts[index] = counts[index].saturating_add(narrow(*count));
        (first, last) = (first.min(index), last.max(index));
    }
    if first > last {
        out.uint(0);
        return;
    }
    out.uint((last - first + 1) as u64);
    out.uint(first as u64);
    let mut zeros = 0;
    for count in &counts[first..=last] {
        if *count == 0 {
            zeros += 1;
            continue;
        }
        if zeros > 0 {
            out.uint(0);
            out.uint(zeros - 1);
            zeros = 0;
        }
        out.uint(u64::from(*count));
    }
}
