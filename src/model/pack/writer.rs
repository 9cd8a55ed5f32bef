//! Writing numbers, sections and slices.

use super::{CUT_OFF, FAILURES, HISTOGRAM, OUTCOMES, TIMERS, TIMES, derived};
use crate::model::access_time::DurationSums;
use crate::model::batch::{Aggregate, Merge, RequestCounts};
use crate::model::histogram::Histogram;
use crate::model::mark::Mark;
use crate::model::minute_report::{MinuteReport, ReportedContext};
use crate::model::outcome::OutcomeCounts;
use crate::model::ranking::RankingDelta;
use crate::model::slice::Precision;
use crate::model::slices::Slices;
use crate::model::slow_request::SlowRequests;
use crate::model::timer_sums::Timers;

pub(crate) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn uint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    pub(super) fn wide(&mut self, mut n: u128) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    pub(super) fn int(&mut self, n: i64) {
        self.uint((n.wrapping_shl(1) ^ (n >> 63)) as u64);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.uint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn section(&mut self, tag: u64, body: impl FnOnce(&mut Self)) {
        self.uint(tag);
        let at = self.0.len();
        body(self);
        let length = self.0.len() - at;
        // The length comes before the body. Nearly all bodies are so short that it takes one byte.
        let mut prefix = Self(Vec::new());
        prefix.uint(length as u64);
        self.0.splice(at..at, prefix.0);
    }

    pub(super) fn times(&mut self, times: &DurationSums) {
        self.uint(times.count);
        if times.count > 0 {
            self.uint(times.sum);
            self.wide(times.sumsq);
            self.uint(times.min);
            self.uint(times.max.wrapping_sub(times.min));
        }
    }

    pub(super) fn outcomes(&mut self, outcomes: &OutcomeCounts) {
        self.uint(outcomes.errors);
        for (number, n) in outcomes.counts.iter().enumerate() {
            if *n > 0 {
                self.uint(number as u64);
                self.uint(*n);
            }
        }
    }

    pub(super) fn histogram(&mut self, histogram: &Histogram) {
        self.0.push(histogram.scale());
        let mut next = 0;
        for (index, n) in histogram.buckets() {
            self.uint(u64::from(index - next));
            self.uint(*n);
            next = index.saturating_add(1);
        }
    }

    pub(super) fn aggregate(&mut self, aggregate: &Aggregate) {
        self.section(TIMES, |out| out.times(&aggregate.times));
        self.section(OUTCOMES, |out| out.outcomes(&aggregate.outcomes));
        self.section(HISTOGRAM, |out| out.histogram(&aggregate.histogram));
        let parts = [
            (FAILURES, &aggregate.failures),
            (CUT_OFF, &aggregate.cut_off),
        ];
        for (tag, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            self.section(tag, |out| out.histogram(part));
        }
        if !aggregate.timers.is_empty() {
            self.section(TIMERS, |out| out.timers(&aggregate.timers));
        }
    }

    pub(super) fn timers(&mut self, timers: &Timers) {
        self.uint(timers.covered);
        for (id, sums) in timers.iter() {
            self.0.extend_from_slice(&id.to_bytes());
            // The others as differences, which are 0 for a timer that runs once per request.
            self.uint(sums.count);
            self.int(sums.count.wrapping_sub(sums.requests) as i64);
            self.uint(sums.sum);
            self.int(sums.sum.wrapping_sub(sums.covered) as i64);
        }
    }

    pub(super) fn slow_requests(&mut self, list: &SlowRequests) {
        self.uint(list.len() as u64);
        for request in list.iter() {
            let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().to_owned();
            self.uint(request.nanos);
            self.int(request.ended);
            self.bytes(request.context.as_bytes());
            self.bytes(request.instance.as_bytes());
            self.uint(request.outcome as u64);
            self.uint(u64::from(request.is_error));
            self.uint(u64::from(request.status.unwrap_or(0)));
            self.bytes(text(&request.trace_id).as_bytes());
            self.bytes(text(&request.path).as_bytes());
        }
    }

    pub(super) fn ranking(&mut self, delta: &RankingDelta, base: i64) {
        self.uint(u64::from(delta.spec.interval));
        self.uint(u64::from(delta.spec.slices));
        self.uint(u64::from(delta.spec.max_ids));
        self.uint(delta.dropped);
        self.uint(delta.ids.len() as u64);
        for (id, added) in &delta.ids {
            self.bytes(id.as_bytes());
            self.uint(u64::from(added.is_removed));
            self.slices(&added.slices, delta.spec.precision(), base, |out, n| {
                out.int(*n);
            });
        }
    }

    pub(super) fn report(&mut self, report: &MinuteReport, base: i64) {
        self.int(base.wrapping_sub(report.minute));
        self.bytes(report.instance.as_bytes());
        self.bytes(report.version.as_deref().unwrap_or_default().as_bytes());
        self.uint(report.max_contexts as u64);
        self.uint(u64::from(report.is_side_by_side));
        self.reported_contexts(&report.contexts);
    }

    pub(super) fn reported_contexts(&mut self, contexts: &[ReportedContext]) {
        self.uint(contexts.len() as u64);
        for (id, aggregate) in contexts {
            self.0.extend_from_slice(&id.to_bytes());
            self.aggregate_in_place(aggregate);
        }
    }

    pub(super) fn marks<'a>(&mut self, marks: impl ExactSizeIterator<Item = &'a Mark>) {
        self.uint(marks.len() as u64);
        for mark in marks {
            self.bytes(mark.id.as_bytes());
            self.mark(mark);
        }
    }

    pub(super) fn mark(&mut self, mark: &Mark) {
        self.int(mark.at);
        self.bytes(mark.text.as_bytes());
        self.bytes(mark.version.as_deref().unwrap_or_default().as_bytes());
    }

    pub(super) fn aggregate_in_place(&mut self, aggregate: &Aggregate) {
        self.bytes(&super::aggregate(aggregate));
    }

    pub(super) fn request_counts(&mut self, counts: &RequestCounts) {
        self.uint(counts.hits);
        self.uint(counts.errors);
        self.uint(counts.micros);
    }

    pub(super) fn slices<V: Merge>(
        &mut self,
        slices: &Slices<V>,
        precision: Precision,
        base: i64,
        mut value: impl FnMut(&mut Self, &V),
    ) {
        // 0 marks a precision that the reader derives.
        self.uint(slices.len() as u64 + 1);
        let width = i64::from(precision.seconds);
        let base = base.div_euclid(width);
        for (start, v) in slices.iter() {
            self.int(base.wrapping_sub(start.div_euclid(width)));
            value(self, v);
        }
    }

    pub(super) fn series<V: Merge + Clone + PartialEq>(
        &mut self,
        series: &[Slices<V>],
        precisions: &[Precision],
        base: i64,
        mut value: impl FnMut(&mut Self, &V),
    ) {
        for (at, (slices, precision)) in series.iter().zip(precisions).enumerate() {
            if at > 0 && derived(&series[0], *precision) == *slices {
                self.uint(0);
            } else {
                self.slices(slices, *precision, base, &mut value);
            }
        }
    }
}
