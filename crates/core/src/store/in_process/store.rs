//! The traits of a store, over the state of one process.

use super::entered::PackedCall;
use super::table_reads::len_of_part;
use super::{Access, InProcessStore};
use crate::condition::{Condition, Warning};
use crate::store::StoreFuture;
use crate::store::journal::{Acquired, Amendment, Entries, FieldValues, FoldStep, Journal, Step};
use crate::store::locality::{IN_PROCESS, Locality};
use crate::store::table::Table;
use crate::store::table_reads::{Answers, Purpose, TableRead, TableReader};
use crate::store::{
    Append, Appended, AppendedCall, Cleaned, CounterQuery, CounterSeries, FencedBatch, Fleet,
    Generation, Heartbeat, Pass, Position, Query, Readable, SlowestQuery, Store, StoreStatus,
    Upkeep, check_precisions, read,
};
use tower_pulse_model::context::Metric;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::slowest::{RANKING_LEN, RankedContext};
use tower_pulse_model::snapshot::FleetSnapshot;

impl Store for InProcessStore {
    fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    fn journal(&self) -> &dyn Journal {
        self
    }

    fn locality(&self) -> &'static Locality {
        &IN_PROCESS
    }

    fn reset_remedy(&self) -> Option<&'static str> {
        let is_told = !self.place.trouble().is_empty();
        (!is_told).then_some("look for who has deleted its data")
    }

    fn explains_failures(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        self.place.describe()
    }

    fn has_context_counters(&self) -> bool {
        self.has_context_counters
    }

    fn conditions(&self) -> Vec<Warning> {
        let texts = self.place.trouble().into_iter();
        texts.map(|text| Condition::File.warning(text)).collect()
    }

    fn sync(&self) -> StoreFuture<'_, ()> {
        self.place.make_durable()
    }

    fn durable_seq(&self, instance: &str) -> Option<u64> {
        self.place.durable_seq(instance)
    }
}

impl Append for InProcessStore {
    fn hello(&self) -> StoreFuture<'_, Generation> {
        let now = self.now();
        Box::pin(self.with(Access::Read, move |state| {
            Ok(Generation {
                id: state.kept.generation.clone(),
                age: u64::try_from(now.saturating_sub(state.kept.created)).unwrap_or(0),
                is_fresh: true,
            })
        }))
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> StoreFuture<'a, Appended> {
        Box::pin(async move {
            check_precisions(&call.batch, &self.precisions)?;
            let (call, now) = (PackedCall::new(call), self.now());
            let most_bytes = self.journal_bytes;
            self.with(Access::Write, move |state| {
                Ok(state.append(call, most_bytes, now))
            })
            .await
        })
    }

    fn readable<'a>(&'a self, call: &'a AppendedCall) -> StoreFuture<'a, Readable> {
        let call = call.clone();
        Box::pin(self.with(Access::Read, move |state| {
            Ok(state.readable(&call.generation, &call.instance, call.seq, call.position))
        }))
    }
}

impl Upkeep for InProcessStore {
    fn status(&self, now: i64) -> StoreFuture<'_, StoreStatus> {
        Box::pin(self.with(Access::Read, move |state| state.status(now)))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> StoreFuture<'a, (Fleet, StoreStatus)> {
        let (heartbeat, now) = (heartbeat.clone(), heartbeat.at);
        Box::pin(self.with(Access::Read, move |state| {
            Ok((state.heartbeats.beat(heartbeat), state.status(now)?))
        }))
    }

    fn deregister<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()> {
        let instance = instance.to_owned();
        Box::pin(self.with(Access::Read, move |state| {
            state.heartbeats.remove(&instance);
            Ok(())
        }))
    }

    fn clean<'a>(&'a self, pass: &'a Pass) -> StoreFuture<'a, Option<Cleaned>> {
        let (pass, precisions) = (pass.clone(), self.precisions.clone());
        Box::pin(self.with(Access::Write, move |state| {
            state.clean(&pass, &precisions).map(Some)
        }))
    }
}

impl Query for InProcessStore {
    fn tables(&self) -> &dyn TableReader {
        self
    }

    fn fleet(&self, now: i64) -> StoreFuture<'_, FleetSnapshot> {
        let precisions = self.precisions.clone();
        Box::pin(self.with(Access::Read, move |state| Ok(state.fleet(&precisions, now))))
    }

    fn counters<'a>(&'a self, query: &'a CounterQuery) -> StoreFuture<'a, Vec<CounterSeries>> {
        Box::pin(async move {
            let asked = query.clone();
            let slices = self.with(Access::Read, move |state| {
                let names = asked.names.iter();
                let slices = names.map(|name| state.counters.slices(name, asked.precision));
                Ok(slices.collect::<Vec<_>>())
            });
            let mut counters = Vec::with_capacity(query.names.len());
            for (name, mut slices) in query.names.iter().zip(slices.await?) {
                let recorded = Metric::of_counter(name).filter(|_| !self.has_context_counters);
                if let Some((metric, context)) = recorded {
                    let (width, now) = (query.precision, self.now());
                    slices =
                        read::recorded_counter(self, None, metric, context, width, now).await?;
                }
                counters.push(CounterSeries::new(name.clone(), slices));
            }
            Ok(counters)
        })
    }

    fn counter_names<'a>(&'a self, precisions: &'a [u32]) -> StoreFuture<'a, Vec<String>> {
        let precisions = precisions.to_vec();
        Box::pin(self.with(Access::Read, move |state| {
            Ok(state.counters.names(&precisions))
        }))
    }

    fn slowest<'a>(&'a self, query: &'a SlowestQuery) -> StoreFuture<'a, Vec<RankedContext>> {
        let limit = query.limit.min(RANKING_LEN);
        Box::pin(async move {
            let since = self
                .with(Access::Read, |state| Ok(state.kept.ranked_since))
                .await?;
            read::slowest(self, since, limit, self.now()).await
        })
    }
}

impl TableReader for InProcessStore {
    fn read_tables<'a>(&'a self, _: Purpose, reads: &'a [TableRead]) -> StoreFuture<'a, Answers> {
        Box::pin(async move {
            let now = self.now();
            let (mut answers, mut unread) = (Vec::with_capacity(reads.len()), reads);
            while !unread.is_empty() {
                if !answers.is_empty() {
                    // Neither the store nor this thread is held for long.
                    tokio::task::yield_now().await;
                }
                let (part, later) = unread.split_at(len_of_part(unread));
                let part = part.to_vec();
                let answered = self.with(Access::Read, move |state| {
                    let answers = part.iter().map(|read| state.answer(read, now));
                    answers.collect::<Result<Vec<_>, _>>()
                });
                answers.extend(answered.await?);
                unread = later;
            }
            Ok(Answers::new(answers))
        })
    }
}

impl Journal for InProcessStore {
    fn turn(&self) -> Option<&tokio::sync::Mutex<()>> {
        Some(&self.turn)
    }

    fn acquire<'a>(&'a self, _: &'a str, version: &'a str) -> StoreFuture<'a, Acquired> {
        let version = version.to_owned();
        Box::pin(self.with(Access::Write, |state| Ok(state.acquire(version))))
    }

    fn release<'a>(&'a self, _: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn read<'a>(
        &'a self,
        _: &'a str,
        version: &'a str,
        from: Position,
        bytes: u64,
    ) -> StoreFuture<'a, Step<Entries>> {
        let (version, now) = (version.to_owned(), self.now());
        Box::pin(self.with(Access::Read, move |state| {
            state.under(&version, |state| {
                Ok(Entries {
                    head: state.kept.journal.head,
                    now,
                    entries: state.kept.journal.after(from, bytes),
                })
            })
        }))
    }

    fn load_fields<'a>(
        &'a self,
        _: &'a str,
        version: &'a str,
        fields: &'a [(Table, Vec<Vec<u8>>)],
    ) -> StoreFuture<'a, Step<Vec<FieldValues>>> {
        let (version, fields) = (version.to_owned(), fields.to_vec());
        let now = self.now();
        Box::pin(self.with(Access::Read, move |state| {
            state.under(&version, |state| {
                let fields = fields.iter();
                let values = fields.map(|(table, fields)| state.tables.get(table, fields, now));
                values.collect()
            })
        }))
    }

    fn fold<'a>(&'a self, step: &'a FoldStep) -> StoreFuture<'a, Step<()>> {
        let (step, now) = (step.clone(), self.now());
        Box::pin(self.with(Access::Write, move |state| state.step(step, now)))
    }

    fn amend<'a>(
        &'a self,
        version: &'a str,
        next: &'a str,
        amendment: Amendment<'a>,
    ) -> StoreFuture<'a, Step<()>> {
        let (version, next) = (version.to_owned(), next.to_owned());
        let aside = match amendment {
            Amendment::SetAside(entry) => Some((entry.position, entry.requests.max(1))),
            _ => None,
        };
        let is_hole = matches!(amendment, Amendment::CloseHole);
        // No entry is of a newer version: an older process does not open the file of a newer form.
        Box::pin(self.with(Access::Write, move |state| {
            Ok(state.amend(&version, next, |journal| {
                if let Some((position, requests)) = aside {
                    journal.aside.push(position);
                    journal.set_aside = journal.set_aside.saturating_add(requests);
                } else if is_hole {
                    let end = journal.upto.unwrap_or(journal.head);
                    journal.hole_bytes += end.offset.saturating_sub(journal.low.offset);
                    journal.finish(end);
                }
            }))
        }))
    }

    fn remove_fences<'a>(&'a self, version: &'a str) -> StoreFuture<'a, u64> {
        let (version, now) = (version.to_owned(), self.now());
        Box::pin(self.with(Access::Write, move |state| {
            Ok(state.remove_fences(&version, now))
        }))
    }
}
