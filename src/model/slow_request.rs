//! The slowest requests, each by itself: the recipe *slowest pages* tells which page is slow, a slow request
//! tells when, where, and under which trace id.

use std::cmp::Ordering;
use std::sync::Arc;

use super::context::Kind;
use super::outcome::Outcome;
use super::slices::Merge;

/// Slow requests that are retained of each context and hour.
pub const SLOW_PER_CONTEXT: usize = 5;

/// Slow requests that are retained of all contexts together and hour.
pub const SLOW_OF_ALL: usize = 100;

/// The most slow requests of a context that an instance sends in a second.
pub const SLOW_PER_SECOND: usize = 20;

/// The longest trace id, in bytes. Longer ones are cut.
pub const MAX_TRACE_ID: usize = 64;

/// The longest path of a request, in bytes. Longer ones are cut.
pub const MAX_PATH: usize = 256;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// Its duration, in nanoseconds.
    pub nanos: u64,
    /// When it ended, in Unix milliseconds.
    pub ended: i64,
    /// Its context.
    pub context: Arc<str>,
    /// The instance that served it.
    pub instance: Arc<str>,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it counts as an error.
    pub is_error: bool,
    /// The status of its response; `None` if there was no response.
    pub status: Option<u16>,
    /// The app's id of the request, or the id of its trace.
    pub trace_id: Option<Box<str>>,
    /// The path, without the query.
    pub path: Option<Box<str>>,
}

impl SlowRequest {
    /// Slowest first. Equally slow requests are ordered by their other properties, so that every instance
    /// retains the same ones.
    fn order(&self, other: &Self) -> Ordering {
        let key = |r: &Self| (r.ended, r.context.clone(), r.instance.clone());
        let of_equals = || (key(self), &self.trace_id).cmp(&(key(other), &other.trace_id));
        other.nanos.cmp(&self.nanos).then_with(of_equals)
    }

    /// Approximate bytes in memory.
    fn bytes(&self) -> usize {
        let texts = [&self.trace_id, &self.path].into_iter().flatten();
        size_of::<Self>() + texts.map(|text| text.len()).sum::<usize>()
    }
}

/// The slowest requests of an hour, slowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequests {
    limit: usize,
    requests: Vec<SlowRequest>,
}

impl SlowRequests {
    /// An empty list of the requests of a context of this kind.
    pub fn of(kind: Kind) -> Self {
        Self {
            limit: match kind {
                Kind::All => SLOW_OF_ALL,
                Kind::Http | Kind::Timer => SLOW_PER_CONTEXT,
            },
            requests: Vec::new(),
        }
    }

    /// Adds a request, if it is among the slowest.
    pub fn add(&mut self, request: SlowRequest) {
        let at = self
            .requests
            .partition_point(|before| before.order(&request).is_le());
        if at < self.limit {
            self.requests.truncate(self.limit - 1);
            self.requests.insert(at, request);
        }
    }

    /// The requests, slowest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SlowRequest> {
        self.requests.iter()
    }

    /// Moves the requests out, slowest first.
    pub fn into_requests(self) -> Vec<SlowRequest> {
        self.requests
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The duration that a further request must exceed to be added, in nanoseconds; `None` while there is
    /// room for any.
    pub fn threshold(&self) -> Option<u64> {
        let last = self.requests.get(self.limit - 1)?;
        Some(last.nanos)
    }

    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        self.requests.iter().map(SlowRequest::bytes).sum()
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
    use proptest::prelude::*;

    fn request(nanos: u64, ended: i64) -> SlowRequest {
        SlowRequest {
            nanos,
            ended,
            context: "GET /".into(),
            instance: "a:1".into(),
            outcome: Outcome::Success,
            is_error: false,
            status: Some(200),
            trace_id: None,
            path: None,
        }
    }

    #[test]
    fn a_list_has_a_limit_and_a_threshold() {
        for (kind, limit) in [(Kind::Http, 5), (Kind::All, 100)] {
            let mut list = SlowRequests::of(kind);
            for nanos in 1..=limit as u64 {
                assert_eq!(list.threshold(), None);
                list.add(request(nanos, 0));
            }
            assert_eq!((list.len(), list.threshold()), (limit, Some(1)));
            list.add(request(9_999, 0));
            assert_eq!((list.len(), list.threshold()), (limit, Some(2)));
            list.add(request(1, 0));
            assert_eq!((list.len(), list.threshold()), (limit, Some(2)));
            assert_eq!(list.iter().next().map(|first| first.nanos), Some(9_999));
        }
    }

    proptest! {
        #[test]
        fn the_order_of_merging_does_not_matter(all in proptest::collection::vec((0..20u64, 0..5i64), 0..40), at in any::<prop::sample::Index>()) {
            let list = |requests: &[(u64, i64)]| {
                let mut list = SlowRequests::of(Kind::Http);
                requests.iter().for_each(|(nanos, ended)| list.add(request(*nanos, *ended)));
                list
            };
            let (left, right) = all.split_at(at.index(all.len() + 1));
            let [mut both, mut reversed] = [list(left), list(right)];
            let left = both.clone();
            both.merge(&reversed);
            reversed.merge(&left);
            prop_assert_eq!(&both, &reversed);
            prop_assert_eq!(&both, &list(&all));
            let mut expected: Vec<_> = all.iter().map(|(nanos, _)| *nanos).collect();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            expected.truncate(SLOW_PER_CONTEXT);
            let nanos: Vec<_> = both.iter().map(|r| r.nanos).collect();
            prop_assert_eq!(nanos, expected);
        }
    }
}
