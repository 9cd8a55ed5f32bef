//! The keys of cached reads.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::query::window::Window;
#[cfg(feature = "row-cache")]
use crate::row_lists::RowsQuery;
use crate::store::{CounterQuery, SlowRequestQuery};
use tower_pulse_model::context::ContextId;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slice::Precision;

/// The key of a cached answer: identifies a read of the store.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Fleet,
    Book,
    Contexts(String),
    Counters(CounterQuery),
    CounterNames(Vec<u32>),
    Records(ContextId, u32, Precision),
    Window(Window),
    Running(Window, RecordId),
    PathTargets(Window),
    Names,
    Slowest,
    #[cfg(feature = "rankings")]
    Rankings,
    #[cfg(feature = "rankings")]
    Ranking(String, usize, usize),
    #[cfg(feature = "row-cache")]
    Rows(RowsQuery),
    SlowRequests(SlowRequestQuery),
    Profile(ContextId),
    Tiers,
    Status,
    Changes,
    Errors,
    Marks,
    Versions(Arc<str>, Vec<i64>),
    Instances(Range<i64>, Option<RecordId>, Option<Arc<str>>),
}

impl Key {
    /// The age up to which an answer is reused.
    pub(super) fn max_age(&self) -> Duration {
        Duration::from_secs(match self {
            // This data hardly changes.
            Self::Tiers | Self::Profile(_) | Self::Versions(..) => 60,
            // A detailed answer about one instance may be older, because instances report only once a minute.
            Self::Instances(.., Some(_)) => 10,
            _ => 1,
        })
    }

    /// The number of the answer's group. A share of `query_bytes` bounds the answers of each of the three groups.
    pub(super) fn group(&self) -> usize {
        match self {
            Self::Window(_) | Self::Running(..) => 0,
            Self::Records(..) => 1,
            _ => 2,
        }
    }
}
