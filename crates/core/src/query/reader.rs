//! The handle that answers questions.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "row-cache")]
use super::answers::Rows;
use super::answers::{
    self, Changes, ChangesQuery, CounterSamples, Counters, CountersQuery, Deploy, DeployQuery,
    FixFirst, FullHealth, HealthStatus, HeatMap, HeatMapQuery, Instance, InstanceQuery, Instances,
    InstancesQuery, Marks, Overview, Path, PathQuery, Paths, PathsQuery, Profile, ProfileQuery,
    Series, SeriesQuery, Slowest, SlowestRequests, SlowestRequestsQuery, WorstRequests,
};
#[cfg(feature = "rankings")]
use super::answers::{RankingPart, Rankings};
use super::error::QueryError;
use super::source::Source;
use super::window::Window;
use crate::condition::Condition;
#[cfg(feature = "row-cache")]
use crate::row_lists::RowsQuery;
use crate::task::BoxFuture;

/// An answer, and how new it is. The fields of the answer can be read as its own.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Answer<T> {
    /// The answer.
    #[serde(flatten)]
    pub value: T,
    /// The answer includes all samples that were recorded before this moment, in Unix seconds.
    pub as_of: i64,
}

impl<T> std::ops::Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// What a question is answered with.
pub type Answering<'a, T> = BoxFuture<'a, Result<Answer<T>, QueryError>>;

/// Answers what the dashboard shows, in Rust. `Pulse::query` and `Dashboard::query` return it; all
/// clones, and all routers of the same `Pulse`, share what was read.
///
/// # Errors
/// Each question fails with [`QueryError::Store`] or [`QueryError::Unanswered`] while the store cannot be read, and
/// with [`QueryError::Parameter`] when a part of it is not allowed. One about a window fails with [`QueryError::NoRoom`] if
/// its sums do not fit into `query_bytes`. A limit of more than 1,000 rows is not allowed.
///
/// # Cancel safety
/// Dropping a future changes nothing.
#[derive(Clone)]
pub struct Reader(Arc<Source>);

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("store", &self.0.store.describe())
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// A reader of a source.
    pub fn new(source: Source) -> Self {
        Self(Arc::new(source))
    }

    /// What the answers are made from.
    pub fn source(&self) -> &Source {
        &self.0
    }

    /// The moment, in Unix seconds, before which all samples that were recorded can be read.
    pub fn as_of(&self) -> BoxFuture<'_, Result<i64, QueryError>> {
        Box::pin(self.0.reader.as_of())
    }

    /// The fleet's main numbers, and all requests of a window.
    pub fn overview(&self, window: Option<Window>) -> Answering<'_, Overview> {
        self.answer(answers::overview(&self.0, window))
    }

    /// The contexts of a window, each with the window before.
    pub fn paths<'a>(&'a self, query: &'a PathsQuery) -> Answering<'a, Paths> {
        self.answer(answers::paths(&self.0, query))
    }

    /// One context: both hours, a window and the one before, histograms, outcomes, timers, changes, its slowest and newest
    /// failed requests.
    ///
    /// # Errors
    /// [`QueryError::NotFound`] without a context of the name.
    pub fn path<'a>(&'a self, query: &'a PathQuery) -> Answering<'a, Path> {
        self.answer(answers::path(&self.0, query))
    }

    /// What is usual for a context, or for all requests, at each hour of the week.
    ///
    /// # Errors
    /// [`QueryError::NotFound`] without a context of the name.
    pub fn profile<'a>(&'a self, query: &'a ProfileQuery) -> Answering<'a, Profile> {
        self.answer(answers::profile(&self.0, query))
    }

    /// A metric of a context, or of all requests, over time.
    ///
    /// # Errors
    /// [`QueryError::TooLarge`] with more than 16,384 points.
    pub fn series<'a>(&'a self, query: &'a SeriesQuery) -> Answering<'a, Series> {
        self.answer(answers::series(&self.0, query))
    }

    /// How many requests of a context, or of all, took how long, slice by slice.
    ///
    /// # Errors
    /// [`QueryError::TooLarge`] with more than 341 slices.
    pub fn heat_map<'a>(&'a self, query: &'a HeatMapQuery) -> Answering<'a, HeatMap> {
        self.answer(answers::heat_map(&self.0, query))
    }

    /// The ranking of the slowest 100 contexts by mean.
    pub fn slowest(&self, limit: usize) -> Answering<'_, Slowest> {
        self.answer(answers::slowest(&self.0, limit))
    }

    /// The slowest requests of this hour or the last, 100 at most.
    pub fn slowest_requests<'a>(
        &'a self,
        query: &'a SlowestRequestsQuery,
    ) -> Answering<'a, SlowestRequests> {
        self.answer(answers::slowest_requests(&self.0, query))
    }

    /// Which pages and instances to fix first, why, and what that would save. The limit is at most 100.
    pub fn fix_first(&self, window: Window, limit: usize) -> Answering<'_, FixFirst> {
        self.answer(answers::fix_first(&self.0, window, limit))
    }

    /// What has changed.
    pub fn changes<'a>(&'a self, query: &'a ChangesQuery) -> Answering<'a, Changes> {
        self.answer(answers::changes(&self.0, query))
    }

    /// Which requests? Those of a page to look at, in a window or in the last two hours.
    pub fn worst_requests<'a>(
        &'a self,
        context: &'a str,
        window: Option<Window>,
    ) -> Answering<'a, WorstRequests> {
        self.answer(answers::worst_requests(&self.0, context, window))
    }

    /// The marks.
    pub fn marks(&self) -> Answering<'_, Marks> {
        self.answer(answers::marks(&self.0))
    }

    /// Each context before and after a mark.
    ///
    /// # Errors
    /// [`QueryError::NotFound`] without such a mark.
    pub fn deploy<'a>(&'a self, query: &'a DeployQuery) -> Answering<'a, Deploy> {
        self.answer(answers::deploy(&self.0, query))
    }

    /// What each instance did, beside the others.
    pub fn instances<'a>(&'a self, query: &'a InstancesQuery) -> Answering<'a, Instances> {
        self.answer(answers::instances(&self.0, query))
    }

    /// One instance beside the others: minute by minute, on each of its paths, and whether all of it is slower.
    ///
    /// # Errors
    /// [`QueryError::NotFound`] if no instance of the name is alive or has had requests in the window.
    pub fn instance<'a>(&'a self, query: &'a InstanceQuery) -> Answering<'a, Instance> {
        self.answer(answers::instance(&self.0, query))
    }

    /// The user's counters.
    pub fn counters<'a>(&'a self, query: &'a CountersQuery) -> Answering<'a, Counters> {
        self.answer(answers::counters(&self.0, query))
    }

    /// One counter over time, in slices of `precision` seconds: one of the configured, a minute if none is given.
    ///
    /// # Errors
    /// [`QueryError::NotFound`] without a counter of the name.
    pub fn counter<'a>(
        &'a self,
        name: &'a str,
        precision: Option<u32>,
    ) -> Answering<'a, CounterSamples> {
        self.answer(answers::counter(&self.0, name, precision))
    }

    /// The rankings of the fleet and of this process, without their ids.
    #[cfg(feature = "rankings")]
    pub fn rankings(&self) -> Answering<'_, Rankings> {
        self.answer(answers::rankings(&self.0))
    }

    /// A part of a ranking, the highest score first.
    ///
    /// # Errors
    /// [`QueryError::NotFound`] without a ranking of the name.
    #[cfg(feature = "rankings")]
    pub fn ranking<'a>(
        &'a self,
        name: &'a str,
        offset: usize,
        limit: usize,
    ) -> Answering<'a, RankingPart> {
        self.answer(answers::ranking(&self.0, name, offset, limit))
    }

    /// The scheduled rows of a row cache of this process.
    ///
    /// # Errors
    /// [`QueryError::NotFound`] without a row cache of the name.
    #[cfg(feature = "row-cache")]
    pub fn rows<'a>(&'a self, query: &'a RowsQuery) -> Answering<'a, Rows> {
        self.answer(answers::rows(&self.0, query))
    }

    /// The state of this process, with what only the store knows: keys that cannot be read.
    /// It is answered whatever the state of the store.
    pub fn health(&self) -> BoxFuture<'_, FullHealth> {
        Box::pin(answers::health(&self.0))
    }

    /// The part of [`health`](Self::health) that seldom changes.
    pub fn health_status(&self) -> BoxFuture<'_, HealthStatus> {
        Box::pin(answers::status(&self.0))
    }

    /// Boxed, so that this crate compiles the future: see [`BoxFuture`].
    #[inline(never)]
    fn answer<'a, T: Send + 'a>(
        &'a self,
        value: impl Future<Output = Result<T, QueryError>> + Send + 'a,
    ) -> Answering<'a, T> {
        Box::pin(async move {
            let source = &self.0;
            let answered = async {
                // Read before the data, so that the data is at least as new.
                let as_of = source.reader.as_of().await?;
                let value = value.await?;
                Ok(Answer { value, as_of })
            };
            answered.await.inspect_err(|error| {
                // Health tells by other means that the store does not answer at all.
                if let QueryError::Store(cause) = error
                    && !cause.kind().is_without_answer()
                {
                    let warning = Condition::Read.warning(error.to_string());
                    source.notices.fails(&source.clock, warning);
                }
            })
        })
    }
}
