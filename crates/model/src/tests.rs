//! Values and checks that the tests of several modules use.

use std::fmt::Debug;

use crate::aggregate::Aggregate;
use crate::amounts::Amounts;
use crate::context::{ContextId, Kind, RecordId};
use crate::histogram::{Histogram, SCALE, bucket_of};
use crate::mark::{Mark, StoredMark};
use crate::minute_report::{MinuteReport, ReportedContext};
use crate::outcome::Outcome;
use crate::ranking::RankingSpec;
use crate::records::Record;
use crate::slow_request::{RequestParts, SlowRequest, SlowRequests};
use crate::tiers::History;
use crate::timer_sums::TimerSums;

pub(crate) fn get() -> ContextId {
    ContextId::new(Kind::Http, "GET /")
}

pub(crate) fn http(name: impl ToString) -> RecordId {
    RecordId::new(Kind::Http, &name.to_string())
}

pub(crate) fn timer(name: impl ToString) -> RecordId {
    RecordId::new(Kind::Timer, &name.to_string())
}

pub(crate) fn requests(count: u64, nanos: u64) -> Aggregate {
    let mut sums = Aggregate::default();
    (0..count).for_each(|_| sums.times.record(nanos));
    sums.histogram = Histogram::new(SCALE, [(bucket_of(nanos) as u16, count)]);
    sums
}

pub(crate) fn record_of(sums: Aggregate) -> Record {
    Record {
        sums,
        ..Record::default()
    }
}

pub(crate) fn timer_sums(count: u64, requests: u64, sum: u64, covered: u64) -> TimerSums {
    TimerSums {
        count,
        requests,
        sum,
        covered,
    }
}

/// A run of a timer that ended after its request.
pub(crate) fn lone_run(nanos: u64) -> TimerSums {
    timer_sums(1, 0, nanos, 0)
}

/// Each pair is the name of a context and the number of its requests.
pub(crate) fn contexts(counts: &[(u64, u64)]) -> Vec<ReportedContext> {
    let context = |(name, count): &(u64, u64)| (http(name), requests(*count, 1_000));
    counts.iter().map(context).collect()
}

pub(crate) fn report(minute: i64, contexts: Vec<ReportedContext>) -> MinuteReport {
    MinuteReport {
        minute,
        instance: "a".into(),
        version: None,
        max_contexts: 2,
        is_side_by_side: false,
        contexts,
        machine: None,
    }
}

pub(crate) fn stored(mark: Mark) -> StoredMark {
    StoredMark {
        mark,
        is_removed: false,
    }
}

pub(crate) fn slow(nanos: u64) -> SlowRequest {
    SlowRequest {
        nanos,
        ended: 0,
        context: "GET /".into(),
        instance: "a:1".into(),
        outcome: Outcome::Success,
        is_error: false,
        status: Some(200),
        trace_id: None,
        path: None,
        parts: RequestParts::default(),
        failure: None,
    }
}

pub(crate) fn list(kind: Kind, requests: &[SlowRequest]) -> SlowRequests {
    let mut list = SlowRequests::of(kind);
    requests.iter().for_each(|r| list.add(r.clone()));
    list
}

pub(crate) const fn spec(interval: u32, slices: u32, max_ids: u32) -> RankingSpec {
    RankingSpec {
        interval,
        slices,
        max_ids,
    }
}

pub(crate) fn history(days: u32, since: i64, renewed_at: i64) -> History {
    History {
        days,
        since,
        renewed_at,
    }
}

pub(crate) fn amounts(samples: u64, additions: u64, details: u64) -> Amounts {
    Amounts {
        samples,
        additions,
        details,
    }
}

/// Merges three values, and checks that neither their order nor their grouping matters.
pub(crate) fn merged_in_any_order<T: Clone + Debug + PartialEq>(
    [a, b, c]: [T; 3],
    merge: impl Fn(&mut T, &T),
) -> T {
    let merged = |first: &T, second: &T| {
        let mut both = first.clone();
        merge(&mut both, second);
        both
    };
    let all = merged(&merged(&a, &b), &c);
    assert_eq!(all, merged(&a, &merged(&b, &c)));
    assert_eq!(all, merged(&c, &merged(&b, &a)));
    all
}
