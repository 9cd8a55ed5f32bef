//! Queries: the reads of the API and of the dashboard. One query asks for all data that an answer needs, so that the
//! answer takes few round trips.

use super::exports::Exports;
#[cfg(feature = "query")]
use super::read::BookStatistics;
use super::read::{
    self, InstanceReports, PackedRecords, RecordCache, RecordIndex, RecordQuery, SliceRecords,
    SlowRequestQuery, VersionRecords,
};
#[cfg(any(feature = "rankings", feature = "__test_store"))]
use super::read::{RankingPage, RankingQuery};
use super::table_reads::TableReader;
use crate::store::StoreFuture;
use tower_pulse_model::records::{RecordId, SliceSums};
use tower_pulse_model::slice::SliceCount;
use tower_pulse_model::slow_request::SlowRequests;
use tower_pulse_model::slowest::RankedContext;
#[cfg(feature = "query")]
use tower_pulse_model::snapshot::ContextSnapshot;
use tower_pulse_model::snapshot::FleetSnapshot;
use tower_pulse_model::tier::TierSlice;

/// The number of slices in the fleet's recent request counts. The slices have the finest precision.
pub const RECENT_SLICES: i64 = 26;

/// The maximum number of names of counters that are listed.
pub const MAX_COUNTER_NAMES: usize = 10_000;

/// Asks for counters at a precision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CounterQuery {
    /// Names of counters.
    pub names: Vec<String>,
    /// Length of the counters' slices, in seconds.
    pub precision: u32,
}

impl CounterQuery {
    /// Asks for the counters of these names, with slices of `precision` seconds.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>, precision: u32) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            precision,
        }
    }
}

/// A counter at a precision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterSeries {
    /// The name of the counter.
    pub name: String,
    /// The slices of the counter, oldest first. Empty if the store does not have the counter.
    pub slices: Vec<SliceCount>,
}

impl CounterSeries {
    /// A series of these slices.
    pub fn new(name: impl Into<String>, slices: Vec<SliceCount>) -> Self {
        Self {
            name: name.into(),
            slices,
        }
    }

    /// The sum of all slices.
    pub fn sum(&self) -> i64 {
        let counts = self.slices.iter().map(|slice| slice.count);
        counts.fold(0, i64::saturating_add)
    }
}

/// The reads of a store that answer queries. Types such as [`CounterQuery`] are the queries.
///
/// # Cancel safety
/// Dropping a future of this trait changes nothing.
pub trait Query: Send + Sync {
    /// The tables. The default methods of this trait read records, slow requests, minute reports and rankings from the
    /// tables.
    fn tables(&self) -> &dyn TableReader;

    /// The data that other programs can read and add to; `None` if no other program can reach the store.
    fn exports(&self) -> Option<&dyn Exports> {
        None
    }

    /// The cache of records; `None` in a store whose reads are cheap.
    fn record_cache(&self) -> Option<&RecordCache> {
        None
    }

    /// The state of the fleet at `now`.
    fn fleet(&self, now: i64) -> StoreFuture<'_, FleetSnapshot>;

    /// The counters in a query, in the order of the query.
    fn counters<'a>(&'a self, query: &'a CounterQuery) -> StoreFuture<'a, Vec<CounterSeries>>;

    /// The names of the user's counters that the store has at any of the given precisions, in order; at most
    /// [`MAX_COUNTER_NAMES`].
    fn counter_names<'a>(&'a self, precisions: &'a [u32]) -> StoreFuture<'a, Vec<String>>;

    /// The slowest contexts, slowest first: at most `limit`, and at most 100.
    fn slowest(&self, limit: usize) -> StoreFuture<'_, Vec<RankedContext>>;

    /// All contexts of a name, with their statistics of the hour of `now` and the hour before. Values of the wrong form
    /// are left out.
    #[cfg(feature = "query")]
    fn contexts<'a>(&'a self, name: &'a str, now: i64) -> StoreFuture<'a, Vec<ContextSnapshot>> {
        read::contexts(self.tables(), self.exports(), name, now)
    }

    /// A page of the contexts to which other programs may have added, from index `offset` on.
    #[cfg(feature = "query")]
    fn book_statistics(&self, offset: usize, now: i64) -> StoreFuture<'_, BookStatistics> {
        read::book_statistics(self.tables(), self.exports(), offset, now)
    }

    /// The retained records of the contexts in a query, in the order of the query.
    fn records<'a>(&'a self, query: &'a RecordQuery) -> StoreFuture<'a, Vec<Vec<SliceSums>>> {
        read::records(self.tables(), self.record_cache(), query)
    }

    /// The index of the records at `now`.
    fn record_index(&self, now: i64) -> StoreFuture<'_, RecordIndex> {
        read::record_index(self.tables(), now)
    }

    /// The records of all contexts in slices, in the order of the slices. Records that cannot be read are left out.
    fn slice_records<'a>(&'a self, slices: &'a [TierSlice]) -> StoreFuture<'a, Vec<SliceRecords>> {
        read::slice_records(self.tables(), slices)
    }

    /// The packed records of contexts in each slice, in the order of the contexts.
    fn packed_records<'a>(
        &'a self,
        slices: &'a [TierSlice],
        contexts: &'a [RecordId],
    ) -> StoreFuture<'a, Vec<PackedRecords>> {
        read::packed_records(self.tables(), slices, contexts)
    }

    /// The slowest and the newest failed requests of the contexts in a query, in the order of the query.
    fn slow_requests<'a>(
        &'a self,
        query: &'a SlowRequestQuery,
    ) -> StoreFuture<'a, Vec<SlowRequests>> {
        read::slow_requests(self.tables(), query)
    }

    /// A list for each minute, in the order of the minutes: the report of each instance, by name. A minute is given by
    /// its start.
    fn minute_reports<'a>(&'a self, minutes: &'a [i64]) -> StoreFuture<'a, Vec<InstanceReports>> {
        read::minute_reports(self.tables(), minutes)
    }

    /// A list for each minute, in the order of the minutes: the records of each version of the application, by version;
    /// empty if no versions ran side by side.
    fn version_records<'a>(&'a self, minutes: &'a [i64]) -> StoreFuture<'a, Vec<VersionRecords>> {
        read::version_records(self.tables(), minutes)
    }

    /// The names of the rankings that have ids.
    #[cfg(any(feature = "rankings", feature = "__test_store"))]
    fn rankings(&self) -> StoreFuture<'_, Vec<String>> {
        read::ranking_names(self.tables())
    }

    /// A part of a ranking; `None` if the store does not have the ranking.
    #[cfg(any(feature = "rankings", feature = "__test_store"))]
    fn ranking<'a>(&'a self, query: &'a RankingQuery) -> StoreFuture<'a, Option<RankingPage>> {
        read::ranking_page(self.tables(), query)
    }
}
