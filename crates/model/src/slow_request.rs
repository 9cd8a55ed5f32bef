//! The slowest requests and the newest failed ones, one by one. The ranking of the slowest contexts shows which page is
//! slow; a slow request shows when, where, and under which trace id. Failed requests are seldom slow, so they have a
//! limit of their own.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use super::context::{Kind, RecordId};
use super::failure::Failure;
use super::outcome::Outcome;
use super::pack::{Packed, Reader, Writer, is_name, pack, packed};
use super::slices::Merge;
use crate::order::InOrder;

/// The slow requests that are retained per context and hour.
pub const SLOW_PER_CONTEXT: usize = 5;

/// The failed requests that are retained per context and hour: the newest.
pub const FAILED_PER_CONTEXT: usize = 5;

/// The slow requests of all contexts together that are retained per hour.
pub const SLOW_OF_ALL: usize = 100;

/// The most slow requests of a context that an instance sends in a second.
pub const SLOW_PER_SECOND: usize = 20;

/// The most failed requests of a context that an instance sends in a second, in addition to slow ones.
pub const FAILED_PER_SECOND: usize = 5;

/// The most requests with a trace id that a process holds per context for Prometheus: one for each bucket of durations,
/// and one for errors.
pub const EXEMPLARS: usize = 19;

/// The most timers that are retained per listed request: those that cover the most time.
pub const LISTED_TIMERS: usize = 8;

/// The longest trace id, in bytes. A longer id is cut.
pub const MAX_TRACE_ID: usize = 64;

/// The longest path of a request, in bytes. A longer path is cut.
pub const MAX_PATH: usize = 256;

packed! {
    /// One request.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SlowRequest {
        /// The duration, in nanoseconds.
        pub nanos: u64,
        /// The end of the request, in Unix milliseconds.
        pub ended: i64,
        /// The context of the request.
        pub context: Arc<str>,
        /// The instance that served the request.
        pub instance: Arc<str>,
        /// The outcome of the request.
        pub outcome: Outcome,
        /// Whether the request counts as an error.
        pub is_error: bool,
        /// The status of the response; `None` without a response.
        pub status: Option<u16>,
        /// The application's id of the request, or the id of the request's trace.
        pub trace_id: Option<Box<str>>,
        /// The path, without the query.
        pub path: Option<Box<str>>,
        /// The parts of the request's time.
        pub parts: RequestParts,
        /// The failure that the service described, if the request is an error.
        pub failure: Option<Failure>,
    }

    /// The parts of a request's time, in nanoseconds. Packed, they take at most 267 bytes.
    #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct RequestParts {
        /// The wait in front of the process, before the request's own time; `None` if the wait is unknown.
        pub queue: Option<u64>,
        /// The time within the polls of the request; `None` if the request was not polled.
        pub computing: Option<u64>,
        /// The longest of these polls.
        pub longest_poll: u64,
        /// The time during which any timer ran.
        pub timed: u64,
        /// At most [`LISTED_TIMERS`] timers, the one that covers the most time first.
        pub timers: Vec<TimerPart>,
    }

    /// A timer within one request.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct TimerPart {
        /// The id of the timer's own records.
        pub timer: RecordId,
        /// The number of runs that ended within the request.
        pub count: u64,
        /// The time of the request during which the timer ran, in nanoseconds.
        pub covered: u64,
    }
}

impl SlowRequest {
    /// Orders requests by duration, slowest first. Equally slow requests are ordered by all of their other properties,
    /// so that every instance retains the same requests.
    pub fn order(&self, other: &Self) -> Ordering {
        fn key(r: &SlowRequest) -> impl Ord + '_ {
            let ending = (r.is_error, r.status, r.outcome as u8);
            (
                r.ended,
                &r.context,
                &r.instance,
                &r.trace_id,
                &r.path,
                &r.parts,
                &r.failure,
                ending,
            )
        }
        let of_equals = || key(self).cmp(&key(other));
        other.nanos.cmp(&self.nanos).then_with(of_equals)
    }

    fn bytes(&self) -> usize {
        let texts = [&self.trace_id, &self.path].into_iter().flatten();
        let timers = size_of_val(&*self.parts.timers);
        let failure = self.failure.as_ref();
        let failure = failure.map_or(0, |of| of.kind().len() + of.message().map_or(0, str::len));
        size_of::<Self>() + timers + failure + texts.map(|text| text.len()).sum::<usize>()
    }
}

/// The slowest requests of an hour and the newest failed ones. A request that is both is in the list once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequests {
    limit: usize,
    failed_limit: usize,
    /// The requests, slowest first.
    requests: Vec<SlowRequest>,
}

impl SlowRequests {
    /// An empty list for a context of this kind.
    pub fn of(kind: Kind) -> Self {
        let (limit, failed_limit) = match kind {
            Kind::All => (SLOW_OF_ALL, 0),
            Kind::Http => (SLOW_PER_CONTEXT, FAILED_PER_CONTEXT),
            Kind::Timer => (SLOW_PER_CONTEXT, 0),
        };
        Self {
            limit,
            failed_limit,
            requests: Vec::new(),
        }
    }

    /// Adds a request, if it is among the slowest or the newest failed ones.
    pub fn add(&mut self, request: SlowRequest) {
        let at = self
            .requests
            .partition_point(|before| before.order(&request).is_le());
        if at < self.limit || (request.is_error && self.failed_limit > 0) {
            self.requests.insert(at, request);
            self.prune();
        }
    }

    fn prune(&mut self) {
        if self.requests.len() <= self.limit {
            return;
        }
        let failed = self.failed_indices();
        let mut index = 0;
        self.requests.retain(|_| {
            let is_retained = index < self.limit || failed.contains(&index);
            index += 1;
            is_retained
        });
    }

    /// The indices of the newest failed requests, newest first. Requests that ended at the same time stay in the order
    /// of the list.
    fn failed_indices(&self) -> Vec<usize> {
        if self.failed_limit == 0 {
            return Vec::new();
        }
        let failed = self.requests.iter().enumerate();
        let mut failed: Vec<_> = failed.filter(|(_, request)| request.is_error).collect();
        failed.order_by_key(|(_, request)| Reverse(request.ended));
        let indices = failed.into_iter().map(|(index, _)| index);
        indices.take(self.failed_limit).collect()
    }

    /// The slowest requests, slowest first.
    pub fn slowest(&self) -> impl ExactSizeIterator<Item = &SlowRequest> {
        self.requests.iter().take(self.limit)
    }

    /// The newest failed requests, newest first. The slowest may be among them.
    pub fn failed(&self) -> impl ExactSizeIterator<Item = &SlowRequest> {
        let indices = self.failed_indices().into_iter();
        indices.map(|index| &self.requests[index])
    }

    /// All requests, slowest first. Failed ones may be fast.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SlowRequest> {
        self.requests.iter()
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The shortest duration among the slowest requests, in nanoseconds: a further request that is faster is not one of
    /// them. `None` while there is room for any request.
    pub fn threshold(&self) -> Option<u64> {
        let last = self.requests.get(self.limit - 1)?;
        Some(last.nanos)
    }

    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        self.requests.iter().map(SlowRequest::bytes).sum()
    }

    /// Packs the list.
    pub fn pack(&self) -> Vec<u8> {
        pack(&self.requests)
    }

    /// Unpacks the list of a context of this kind; `None` if the bytes are no list.
    pub fn unpack(bytes: &[u8], kind: Kind) -> Option<Self> {
        Self::read(&mut Reader(bytes), kind)
    }

    pub(super) fn write(&self, out: &mut Writer) {
        self.requests.write(out);
    }

    pub(super) fn read(from: &mut Reader<'_>, kind: Kind) -> Option<Self> {
        let mut list = Self::of(kind);
        for _ in 0..from.uint().filter(|n| *n <= SLOW_OF_ALL as u64)? {
            let request = SlowRequest::read(from)?;
            let texts = [&request.trace_id, &request.path].into_iter().flatten();
            let is_bounded = texts.map(|text| text.len()).max() <= Some(MAX_PATH)
                && request.parts.timers.len() <= LISTED_TIMERS;
            let is_named = is_name(&request.context) && is_name(&request.instance);
            list.add(Some(request).filter(|_| is_named && is_bounded)?);
        }
        Some(list)
    }
}

impl Merge for SlowRequests {
    fn merge(&mut self, other: &Self) {
        for request in &other.requests {
            self.add(request.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{list, slow};
    use proptest::prelude::*;

    #[test]
    fn a_list_has_a_limit_and_a_threshold() {
        for (kind, limit) in [(Kind::Http, 5), (Kind::All, 100)] {
            let mut list = SlowRequests::of(kind);
            for nanos in 1..=limit as u64 {
                assert_eq!(list.threshold(), None);
                list.add(slow(nanos));
            }
            assert_eq!((list.len(), list.threshold()), (limit, Some(1)));
            list.add(slow(9_999));
            assert_eq!((list.len(), list.threshold()), (limit, Some(2)));
            list.add(slow(1));
            assert_eq!((list.len(), list.threshold()), (limit, Some(2)));
            assert_eq!(list.iter().next().map(|first| first.nanos), Some(9_999));
        }
    }

    /// Duration, end, instance, and whether the request failed.
    type Drawn = (u64, i64, u8, bool);

    fn drawn((nanos, ended, instance, is_error): Drawn) -> SlowRequest {
        SlowRequest {
            ended,
            instance: instance.to_string().into(),
            is_error,
            ..slow(nanos)
        }
    }

    proptest! {
        #[test]
        fn merging_in_any_order_and_grouping_retains_the_slowest_and_the_newest_failed(
            all in proptest::collection::vec((0..12u64, 0..6i64, 0..2u8, any::<bool>()), 0..60),
            groups in proptest::collection::vec((0..6usize, any::<bool>()), 60),
            kind in prop::sample::select(vec![Kind::Http, Kind::All]),
        ) {
            let all: Vec<_> = all.into_iter().map(drawn).collect();
            // The lists are merged one after the other: each into the result so far, or this result into the list.
            let mut lists = vec![SlowRequests::of(kind); 6];
            for (request, (at, _)) in all.iter().zip(&groups) {
                lists[*at].add(request.clone());
            }
            let mut merged = SlowRequests::of(kind);
            for (mut list, (_, is_first)) in lists.into_iter().zip(&groups) {
                if *is_first {
                    std::mem::swap(&mut merged, &mut list);
                }
                merged.merge(&list);
            }
            prop_assert_eq!(&merged, &list(kind, &all));

            let mut slowest = all.clone();
            slowest.order_by(SlowRequest::order);
            let mut failed: Vec<_> = slowest.iter().filter(|r| r.is_error).cloned().collect();
            failed.order_by(|a, b| b.ended.cmp(&a.ended).then(a.order(b)));
            slowest.truncate(if kind == Kind::All { SLOW_OF_ALL } else { SLOW_PER_CONTEXT });
            failed.truncate(if kind == Kind::All { 0 } else { FAILED_PER_CONTEXT });
            prop_assert!(merged.slowest().eq(&slowest));
            prop_assert!(merged.failed().eq(&failed));
            prop_assert!(merged.len() <= slowest.len() + failed.len());
        }

        #[test]
        fn the_order_is_total(requests in proptest::collection::vec((0..2u64, 0..2i64, 0..2u8, any::<bool>()), 2)) {
            let (a, b) = (drawn(requests[0]), drawn(requests[1]));
            prop_assert_eq!(a.order(&b), b.order(&a).reverse());
            prop_assert_eq!(a.order(&b).is_eq(), a == b);
        }
    }
}
