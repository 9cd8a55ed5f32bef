//! The traits of a store, for what has an [`InProcessStore`]. That is compiled once, and not for each kind of place.

use super::InProcess;
use crate::condition::Warning;
use crate::error::StoreError;
use crate::store::journal::Journal;
use crate::store::table_reads::TableReader;
use crate::store::{
    Append, Appended, AppendedCall, Cleaned, CounterQuery, CounterSeries, FencedBatch, Fleet,
    Generation, Heartbeat, Pass, Query, Readable, SlowestQuery, Store, StoreStatus, Upkeep,
};
use crate::task::BoxFuture;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::slowest::RankedContext;
use tower_pulse_model::snapshot::FleetSnapshot;

impl<S: InProcess> Store for S {
    fn precisions(&self) -> &Precisions {
        self.in_process().precisions()
    }

    fn journal(&self) -> Option<&dyn Journal> {
        Some(self.in_process())
    }

    fn describe(&self) -> String {
        self.in_process().describe()
    }

    fn has_context_counters(&self) -> bool {
        self.in_process().has_context_counters()
    }

    fn conditions(&self) -> Vec<Warning> {
        self.in_process().conditions()
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.in_process().sync()
    }

    fn durable_seq(&self, instance: &str) -> Option<u64> {
        self.in_process().durable_seq(instance)
    }
}

impl<S: InProcess> Append for S {
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        self.in_process().hello()
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        self.in_process().append(call)
    }

    fn readable<'a>(
        &'a self,
        call: &'a AppendedCall,
    ) -> BoxFuture<'a, Result<Readable, StoreError>> {
        self.in_process().readable(call)
    }
}

impl<S: InProcess> Upkeep for S {
    fn status(&self, now: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>> {
        self.in_process().status(now)
    }

    fn heartbeat<'a>(
        &'a self,
        heartbeat: &'a Heartbeat,
    ) -> BoxFuture<'a, Result<(Fleet, StoreStatus), StoreError>> {
        self.in_process().heartbeat(heartbeat)
    }

    fn deregister<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.in_process().deregister(instance)
    }

    fn clean<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Cleaned>, StoreError>> {
        self.in_process().clean(pass)
    }
}

impl<S: InProcess> Query for S {
    fn tables(&self) -> &dyn TableReader {
        self.in_process()
    }

    fn fleet(&self, now: i64) -> BoxFuture<'_, Result<FleetSnapshot, StoreError>> {
        self.in_process().fleet(now)
    }

    fn counters<'a>(
        &'a self,
        query: &'a CounterQuery,
    ) -> BoxFuture<'a, Result<Vec<CounterSeries>, StoreError>> {
        self.in_process().counters(query)
    }

    fn counter_names<'a>(
        &'a self,
        precisions: &'a [u32],
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.in_process().counter_names(precisions)
    }

    fn slowest<'a>(
        &'a self,
        query: &'a SlowestQuery,
    ) -> BoxFuture<'a, Result<Vec<RankedContext>, StoreError>> {
        self.in_process().slowest(query)
    }
}
