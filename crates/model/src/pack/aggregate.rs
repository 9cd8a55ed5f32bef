//! Packs the sections of an aggregate, which records and entries contain.

use std::sync::Arc;

use super::{
    CENSORED, CODES, FAILURES, HISTOGRAM, KINDS, MEASURES, OUTCOMES, Packed, Reader, TIMERS, TIMES,
    Writer,
};
use crate::access_time::DurationSums;
use crate::aggregate::Aggregate;
use crate::context::RecordId;
use crate::failure::MAX_KIND;
use crate::histogram::Histogram;
use crate::measures::{Measure, Measures};
use crate::outcome::{OUTCOMES as OUTCOME_COUNT, Outcome, OutcomeCounts};
use crate::tally::{Codes, MAX_WINDOW_KEYS, Tally};
use crate::timer_sums::{MAX_TIMERS, TimerSums, Timers};

/// The most buckets of a histogram that are accepted, more than any histogram has. A longer list is an error.
const MAX_BUCKETS: u64 = 1_024;
const FINEST_SCALE: u8 = 20;
/// The most timers of a record that are accepted, more than a record has.
const MAX_TIMERS_READ: usize = 4 * MAX_TIMERS;
/// The most keys of a tally that are accepted, more than the sums of a window have.
const MAX_KEYS_READ: usize = 4 * MAX_WINDOW_KEYS;
const OK: u16 = 200;

/// Packs the sections of an aggregate.
pub fn aggregate(aggregate: &Aggregate) -> Vec<u8> {
    let buckets = aggregate.histogram.buckets().len();
    let mut out = Writer(Vec::with_capacity(48 + 3 * buckets));
    out.section(TIMES, |out| aggregate.times.write(out));
    out.section(OUTCOMES, |out| out.outcomes(&aggregate.outcomes));
    out.section(HISTOGRAM, |out| out.histogram(&aggregate.histogram));
    for (tag, part) in [FAILURES, CENSORED].into_iter().zip(aggregate.parts()) {
        if !part.is_empty() {
            out.section(tag, |out| out.histogram(part));
        }
    }
    if !aggregate.timers.is_empty() {
        out.section(TIMERS, |out| out.timers(&aggregate.timers));
    }
    if !aggregate.measures.is_empty() {
        out.section(MEASURES, |out| out.measures(&aggregate.measures));
    }
    if aggregate.codes != implied_codes(&aggregate.outcomes) {
        out.section(CODES, |out| out.tally(&aggregate.codes));
    }
    if !aggregate.kinds.is_empty() {
        out.section(KINDS, |out| out.tally(&aggregate.kinds));
    }
    out.0
}

/// Unpacks an aggregate; `None` if the bytes are not one.
pub fn read_aggregate(bytes: &[u8]) -> Option<Aggregate> {
    let mut reader = Reader(bytes);
    let (mut aggregate, mut codes, mut sections) = (Aggregate::default(), None, 0);
    while !reader.0.is_empty() {
        let tag = reader.uint()?;
        let mut body = Reader(reader.bytes()?);
        match tag {
            TIMES => aggregate.times = Packed::read(&mut body)?,
            OUTCOMES => aggregate.outcomes = body.outcomes()?,
            HISTOGRAM => aggregate.histogram = body.histogram()?,
            FAILURES => aggregate.failures = body.histogram()?,
            CENSORED => aggregate.censored = body.histogram()?,
            TIMERS => aggregate.timers = body.timers()?,
            MEASURES => aggregate.measures = body.measures()?,
            CODES => codes = Some(body.tally(|_| true)?),
            KINDS => aggregate.kinds = body.tally(|kind: &Arc<str>| kind.len() <= MAX_KIND)?,
            _ => continue,
        }
        sections += 1;
    }
    aggregate.codes = codes.unwrap_or_else(|| implied_codes(&aggregate.outcomes));
    (sections > 0).then_some(aggregate)
}

/// The codes of an aggregate that has no section of codes. If all requests have succeeded, each has the code 200.
/// Otherwise there are no codes.
fn implied_codes(outcomes: &OutcomeCounts) -> Codes {
    let (successes, mut codes) = (outcomes.count(Outcome::Success), Codes::default());
    let mut only_successes = [0; OUTCOME_COUNT];
    only_successes[Outcome::Success as usize] = successes;
    if outcomes.counts == only_successes {
        codes.add(OK, successes);
    }
    codes
}

impl Writer {
    pub(crate) fn outcomes(&mut self, outcomes: &OutcomeCounts) {
        self.uint(outcomes.errors);
        for (number, n) in outcomes.counts.iter().enumerate() {
            if *n > 0 {
                self.uint(number as u64);
                self.uint(*n);
            }
        }
    }

    pub(crate) fn histogram(&mut self, histogram: &Histogram) {
        self.0.push(histogram.scale());
        let mut next = 0;
        for (index, n) in histogram.buckets() {
            self.uint(u64::from(index - next));
            self.uint(*n);
            next = index.saturating_add(1);
        }
    }

    fn tally<K: Packed + Ord + Clone>(&mut self, tally: &Tally<K>) {
        self.uint(tally.other());
        for (key, n) in tally.iter() {
            key.write(self);
            self.uint(n);
        }
    }

    fn measures(&mut self, measures: &Measures) {
        for (measure, number) in measures.iter() {
            self.uint(measure as u64);
            self.uint(number);
        }
    }

    pub(crate) fn timers(&mut self, timers: &Timers) {
        self.uint(timers.covered);
        for (id, sums) in timers.iter() {
            id.write(self);
            // `requests` and `covered` are written as differences, which are 0 for a timer that runs once per request.
            self.uint(sums.count);
            self.int(sums.count.wrapping_sub(sums.requests) as i64);
            self.uint(sums.sum);
            self.int(sums.sum.wrapping_sub(sums.covered) as i64);
        }
    }
}

impl Reader<'_> {
    pub(crate) fn outcomes(&mut self) -> Option<OutcomeCounts> {
        let mut outcomes = OutcomeCounts {
            errors: self.uint()?,
            ..OutcomeCounts::default()
        };
        while !self.0.is_empty() {
            let (number, n) = (usize::read(self)?, self.uint()?);
            // A newer version may have more outcomes.
            if let Some(mine) = outcomes.counts.get_mut(number) {
                *mine = mine.saturating_add(n);
            }
        }
        Some(outcomes)
    }

    pub(crate) fn histogram(&mut self) -> Option<Histogram> {
        let scale = self.byte().filter(|scale| *scale <= FINEST_SCALE)?;
        // A bucket takes at least two bytes.
        let most = (self.0.len() / 2).min(MAX_BUCKETS as usize);
        let (mut buckets, mut next) = (Vec::with_capacity(most), 0u64);
        while !self.0.is_empty() {
            let index = next.checked_add(self.uint()?)?;
            buckets.push((u16::try_from(index).ok()?, self.uint()?));
            next = index + 1;
            if buckets.len() as u64 > MAX_BUCKETS {
                return None;
            }
        }
        Some(Histogram::from_sorted(scale, buckets))
    }

    fn tally<K: Packed + Ord + Clone>(
        &mut self,
        is_valid: impl Fn(&K) -> bool,
    ) -> Option<Tally<K>> {
        let mut tally = Tally::default();
        tally.add_other(self.uint()?);
        while !self.0.is_empty() {
            let key = K::read(self).filter(&is_valid)?;
            tally.add(key, self.uint()?);
            if tally.iter().len() > MAX_KEYS_READ {
                return None;
            }
        }
        Some(tally)
    }

    fn measures(&mut self) -> Option<Measures> {
        let mut measures = Measures::default();
        while !self.0.is_empty() {
            let (number, value) = (usize::read(self)?, self.uint()?);
            if let Some(measure) = Measure::ALL.get(number) {
                measures.add(*measure, value);
            }
        }
        Some(measures)
    }

    pub(crate) fn timers(&mut self) -> Option<Timers> {
        let mut timers = Timers::default();
        timers.covered = self.uint()?;
        while !self.0.is_empty() {
            let id = RecordId::read(self)?;
            let count = self.uint()?;
            let requests = count.wrapping_sub(self.int()? as u64);
            let sum = self.uint()?;
            let covered = sum.wrapping_sub(self.int()? as u64);
            let sums = TimerSums {
                count,
                requests,
                sum,
                covered,
            };
            timers.add(id, &sums);
            if timers.len() > MAX_TIMERS_READ {
                return None;
            }
        }
        Some(timers)
    }
}

impl Packed for DurationSums {
    fn write(&self, out: &mut Writer) {
        out.uint(self.count);
        if self.count > 0 {
            out.uint(self.sum);
            out.wide(self.sumsq);
            out.uint(self.min);
            out.uint(self.max.wrapping_sub(self.min));
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let mut times = Self {
            count: from.uint()?,
            ..Self::default()
        };
        if times.count > 0 {
            times.sum = from.uint()?;
            times.sumsq = from.wide()?;
            times.min = from.uint()?;
            times.max = times.min.checked_add(from.uint()?)?;
        }
        Some(times)
    }
}

/// Packs the length of the sections, then the sections.
impl Packed for Aggregate {
    fn write(&self, out: &mut Writer) {
        out.bytes(&aggregate(self));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        read_aggregate(from.bytes()?)
    }
}
