//! For this crate's own tests: parts of a store that a test does not use. No part of its public interface.

use super::query::{CounterQuery, CounterSeries, Query, SlowestQuery};
use super::sealed::Sealed;
use super::table_reads::TableReader;
use super::upkeep::{CleanReport, Heartbeat, Pass, PassRecord, StoreStatus, Upkeep};
use crate::error::StoreError;
use crate::model::fleet::Fleet;
use crate::model::slowest::RankedContext;
use crate::model::snapshot::FleetSnapshot;
use crate::task::BoxFuture;

/// A store that is never queried: [`Query`] panics.
pub trait NoQueries: Sealed + Send + Sync {}

/// A store that is never looked after: [`Upkeep`] panics.
pub trait NoUpkeep: Sealed + Send + Sync {}

fn unexpected_query() -> ! {
    unreachable!("this store is never queried")
}

fn unexpected_upkeep() -> ! {
    unreachable!("this store is never looked after")
}

impl<S: NoQueries> Query for S {
    fn tables(&self) -> &dyn TableReader {
        unexpected_query()
    }

    fn fleet(&self, _: i64) -> BoxFuture<'_, Result<FleetSnapshot, StoreError>> {
        unexpected_query()
    }

    fn counters<'a>(
        &'a self,
        _: &'a CounterQuery,
    ) -> BoxFuture<'a, Result<Vec<CounterSeries>, StoreError>> {
        unexpected_query()
    }

    fn counter_names<'a>(&'a self, _: &'a [u32]) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        unexpected_query()
    }

    fn slowest<'a>(
        &'a self,
        _: &'a SlowestQuery,
    ) -> BoxFuture<'a, Result<Vec<RankedContext>, StoreError>> {
        unexpected_query()
    }
}

impl<S: NoUpkeep> Upkeep for S {
    fn status(&self, _: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>> {
        unexpected_upkeep()
    }

    fn heartbeat<'a>(
        &'a self,
        _: &'a Heartbeat,
    ) -> BoxFuture<'a, Result<(Fleet, StoreStatus), StoreError>> {
        unexpected_upkeep()
    }

    fn deregister<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        unexpected_upkeep()
    }

    fn clean<'a>(&'a self, _: &'a Pass) -> BoxFuture<'a, Result<Option<CleanReport>, StoreError>> {
        unexpected_upkeep()
    }

    fn last_pass(&self) -> BoxFuture<'_, Result<Option<PassRecord>, StoreError>> {
        unexpected_upkeep()
    }
}
