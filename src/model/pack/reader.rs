//! Reads numbers, sections and slices from untrusted bytes.

use std::sync::Arc;

use super::{CUT_OFF, FAILURES, HISTOGRAM, OUTCOMES, TIMERS, TIMES, derived};
use crate::model::access_time::DurationSums;
use crate::model::batch::{Aggregate, MAX_CALL_COST, Merge, REPORTED_CONTEXT_COST, RequestCounts};
use crate::model::context::{Kind, MAX_NAME, RecordId};
use crate::model::histogram::Histogram;
use crate::model::mark::{MAX_ESCAPED_BYTES, MAX_PENDING_MARKS, Mark};
use crate::model::minute_report::{MinuteReport, ReportedContext};
use crate::model::outcome::{Outcome, OutcomeCounts};
use crate::model::ranking::{IdDelta, MAX_RANKING_SLICES, RankingDelta, RankingSpec};
use crate::model::slice::Precision;
use crate::model::slices::Slices;
use crate::model::slow_request::{SLOW_OF_ALL, SlowRequest, SlowRequests};
use crate::model::timer_sums::{MAX_TIMERS, TimerSums, Timers};

/// The most buckets of a histogram: more than any scale has within the range. A longer list is an error.
const MAX_BUCKETS: u64 = 1_024;
/// The finest scale that is accepted.
const FINEST_SCALE: u8 = 20;
/// The longest name that is accepted: that of a counter may have a backslash before it.
const MAX_NAME_BYTES: usize = MAX_NAME + 1;
/// The most timers of a record that are accepted: more than a record has.
const MAX_TIMERS_READ: usize = 4 * MAX_TIMERS;

/// What the rest of an entry may cost: no sender makes a call that costs more than [`MAX_CALL_COST`], whatever its
/// configuration.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    /// For an entry. Rankings and reports without content cost its sender nothing, and there are few of them.
    pub(super) const fn of_entry() -> Self {
        Self(MAX_CALL_COST + 512)
    }

    /// For what is read from a table, of which nothing else bounds the length but its bytes.
    pub(super) const fn unlimited() -> Self {
        Self(usize::MAX)
    }

    /// Spends the cost of a part of an entry. `None` if nothing was left before: the last part may cost more than what
    /// is left, as a counter is never split.
    pub(super) fn spend(&mut self, cost: usize) -> Option<()> {
        self.0 = match self.0 {
            0 => return None,
            left => left.saturating_sub(cost.max(1)),
        };
        Some(())
    }
}

#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, tail) = self.0.split_first()?;
        self.0 = tail;
        Some(*first)
    }

    #[inline]
    pub(super) fn uint(&mut self) -> Option<u64> {
        if let Some((first, tail)) = self.0.split_first()
            && *first < 0x80
        {
            self.0 = tail;
            return Some(u64::from(*first));
        }
        u64::try_from(self.wide()?).ok()
    }

    pub(super) fn wide(&mut self) -> Option<u128> {
        let mut n = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if bits.leading_zeros() < shift {
                return None;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    pub(super) fn int(&mut self) -> Option<i64> {
        let n = self.uint()?;
        Some((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.uint()?).ok()?;
        let (bytes, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(bytes)
    }

    /// A text that is no longer than a name.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        self.text_within(MAX_NAME_BYTES)
    }

    fn text_within(&mut self, most: usize) -> Option<&'a str> {
        let bytes = self.bytes()?;
        let bytes = (bytes.len() <= most).then_some(bytes)?;
        std::str::from_utf8(bytes).ok()
    }

    pub(super) fn name(&mut self) -> Option<Arc<str>> {
        self.text().map(Arc::from)
    }

    pub(super) fn times(&mut self) -> Option<DurationSums> {
        let mut times = DurationSums {
            count: self.uint()?,
            ..DurationSums::default()
        };
        if times.count > 0 {
            times.sum = self.uint()?;
            times.sumsq = self.wide()?;
            times.min = self.uint()?;
            times.max = times.min.checked_add(self.uint()?)?;
        }
        Some(times)
    }

    pub(super) fn outcomes(&mut self) -> Option<OutcomeCounts> {
        let mut outcomes = OutcomeCounts {
            errors: self.uint()?,
            ..OutcomeCounts::default()
        };
        while !self.0.is_empty() {
            let (number, n) = (self.uint()?, self.uint()?);
            // A newer version may have more outcomes.
            if let Some(mine) = usize::try_from(number)
                .ok()
                .and_then(|at| outcomes.counts.get_mut(at))
            {
                *mine = mine.saturating_add(n);
            }
        }
        Some(outcomes)
    }

    pub(super) fn histogram(&mut self) -> Option<Histogram> {
        let scale = self.byte().filter(|scale| *scale <= FINEST_SCALE)?;
        let (mut buckets, mut next) = (Vec::new(), 0u64);
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

    pub(super) fn aggregate(&mut self) -> Option<Aggregate> {
        let (mut aggregate, mut sections) = (Aggregate::default(), 0);
        while !self.0.is_empty() {
            let tag = self.uint()?;
            let mut body = Reader(self.bytes()?);
            match tag {
                TIMES => aggregate.times = body.times()?,
                OUTCOMES => aggregate.outcomes = body.outcomes()?,
                HISTOGRAM => aggregate.histogram = body.histogram()?,
                FAILURES => aggregate.failures = body.histogram()?,
                CUT_OFF => aggregate.cut_off = body.histogram()?,
                TIMERS => aggregate.timers = body.timers()?,
                _ => continue,
            }
            sections += 1;
        }
        (sections > 0).then_some(aggregate)
    }

    pub(super) fn timers(&mut self) -> Option<Timers> {
        let mut timers = Timers::default();
        timers.covered = self.uint()?;
        while let Some((id, tail)) = self.0.split_first_chunk::<8>() {
            self.0 = tail;
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
            timers.add(RecordId::from_bytes(id)?, &sums);
            if timers.len() > MAX_TIMERS_READ {
                return None;
            }
        }
        self.0.is_empty().then_some(timers)
    }

    pub(super) fn slow_requests(&mut self, kind: Kind) -> Option<SlowRequests> {
        let mut list = SlowRequests::of(kind);
        let some = |text: &str| -> Option<Box<str>> { (!text.is_empty()).then(|| text.into()) };
        for _ in 0..self.uint().filter(|n| *n <= SLOW_OF_ALL as u64)? {
            list.add(SlowRequest {
                nanos: self.uint()?,
                ended: self.int()?,
                context: self.name()?,
                instance: self.name()?,
                // A newer version may have more outcomes.
                outcome: (usize::try_from(self.uint()?).ok())
                    .and_then(|number| Outcome::ALL.get(number).copied())
                    .unwrap_or(Outcome::Failed),
                is_error: self.uint()? != 0,
                status: Some(u16::try_from(self.uint()?).ok()?).filter(|status| *status > 0),
                trace_id: some(self.text()?),
                path: some(self.text()?),
            });
        }
        Some(list)
    }

    /// Additions to a ranking, whose cost is spent.
    pub(super) fn ranking(&mut self, base: i64, budget: &mut Budget) -> Option<RankingDelta> {
        let mut number = || u32::try_from(self.uint()?).ok();
        let spec = RankingSpec {
            interval: number()?,
            slices: number()?,
            max_ids: number()?,
        };
        if spec.interval == 0 || !(1..=MAX_RANKING_SLICES).contains(&spec.slices) {
            return None;
        }
        let mut delta = RankingDelta::new(spec);
        delta.dropped = self.uint()?;
        budget.spend(0)?;
        for _ in 0..self.uint()? {
            let id = self.name()?;
            let is_removed = self.uint()? != 0;
            let slices = self.slices(spec.precision(), base, Reader::int)??;
            let added = IdDelta { is_removed, slices };
            budget.spend(delta.cost(&added))?;
            delta.ids.insert(id, added);
        }
        Some(delta)
    }

    /// A minute report, whose cost is spent.
    pub(super) fn report(&mut self, base: i64, budget: &mut Budget) -> Option<MinuteReport> {
        budget.spend(REPORTED_CONTEXT_COST)?;
        Some(MinuteReport {
            minute: base.wrapping_sub(self.int()?),
            instance: self.name()?,
            version: self.version()?,
            max_contexts: usize::try_from(self.uint()?).ok()?,
            is_side_by_side: self.uint()? != 0,
            contexts: self.reported_contexts(budget)?,
        })
    }

    /// Marks, whose cost is spent, and nothing else.
    pub(super) fn marks(&mut self, budget: &mut Budget) -> Option<Vec<Mark>> {
        let mut marks = Vec::new();
        for _ in 0..self.uint().filter(|n| *n <= MAX_PENDING_MARKS as u64)? {
            budget.spend(1)?;
            let id = Reader(self.bytes()?).id()?;
            marks.push(self.mark(id)?);
        }
        self.0.is_empty().then_some(marks)
    }

    /// The id of a mark: all bytes.
    pub(super) fn id(&self) -> Option<Arc<str>> {
        let is_id = (1..=MAX_NAME_BYTES).contains(&self.0.len());
        let id = is_id.then_some(self.0)?;
        std::str::from_utf8(id).ok().map(Arc::from)
    }

    pub(super) fn mark(&mut self, id: Arc<str>) -> Option<Mark> {
        Some(Mark {
            id,
            at: self.int()?,
            text: self.text_within(MAX_ESCAPED_BYTES)?.into(),
            version: self.version()?,
        })
    }

    pub(super) fn version(&mut self) -> Option<Option<Arc<str>>> {
        self.name()
            .map(|version| Some(version).filter(|version| !version.is_empty()))
    }

    pub(super) fn reported_contexts(
        &mut self,
        budget: &mut Budget,
    ) -> Option<Vec<ReportedContext>> {
        let mut contexts = Vec::new();
        for _ in 0..self.uint()? {
            budget.spend(REPORTED_CONTEXT_COST)?;
            let (id, tail) = self.0.split_first_chunk::<8>()?;
            self.0 = tail;
            contexts.push((RecordId::from_bytes(id)?, self.aggregate_in_place()?));
        }
        Some(contexts)
    }

    pub(super) fn aggregate_in_place(&mut self) -> Option<Aggregate> {
        Reader(self.bytes()?).aggregate()
    }

    pub(super) fn request_counts(&mut self) -> Option<RequestCounts> {
        Some(RequestCounts {
            hits: self.uint()?,
            errors: self.uint()?,
            micros: self.uint()?,
        })
    }

    /// Slices, oldest first, at most as many as the precision retains. Returns `Some(None)` for slices that are to be
    /// derived.
    pub(super) fn slices<V: Merge>(
        &mut self,
        precision: Precision,
        base: i64,
        mut value: impl FnMut(&mut Self) -> Option<V>,
    ) -> Option<Option<Slices<V>>> {
        let Some(count) = self.uint()?.checked_sub(1) else {
            return Some(None);
        };
        if count > u64::from(precision.retained) {
            return None;
        }
        let width = i64::from(precision.seconds);
        let base = base.div_euclid(width);
        let mut slices = Slices::default();
        for _ in 0..count {
            let start = base.wrapping_sub(self.int()?).checked_mul(width)?;
            slices.push(start, value(self)?)?;
        }
        Some(Some(slices))
    }

    pub(super) fn series<V: Merge + Clone>(
        &mut self,
        precisions: &[Precision],
        base: i64,
        mut value: impl FnMut(&mut Self) -> Option<V>,
    ) -> Option<Vec<Slices<V>>> {
        let mut series: Vec<Slices<V>> = Vec::with_capacity(precisions.len());
        for precision in precisions {
            let slices = match self.slices(*precision, base, &mut value)? {
                Some(slices) => slices,
                None => derived(series.first()?, *precision),
            };
            series.push(slices);
        }
        Some(series)
    }
}
