//! A store of one process, in memory or in a file, for a [`Scheduler`](crate::journal::scheduler::Scheduler). As on a
//! server, several instances use the store, and take over interrupted rounds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tower_pulse::{Clock, ManualClock};
use tower_pulse_core::store::in_process::{
    InProcessStore, MemoryFields, State, StateAccess, StoredState,
};
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::table_reads::{Purpose, TablePage, TableRead};
use tower_pulse_core::store::{Query, Store, Upkeep};
use tower_pulse_file::{FileOptions, FileStore};
use tower_pulse_model::pack::unpack;
use tower_pulse_model::ranking::RankingState;

use crate::journal::redis_under_test::precisions;
use crate::journal::tested_store::{MAX_SAVED, TestedStore};
use crate::rig::process::{TempDir, wait_until_released};
use crate::rig::reads::StoreReads;

pub struct InProcess {
    io: Runtime,
    store: RefCell<Option<Arc<InProcessStore>>>,
    /// The directory of the file and of its snapshots, unless the store is in memory.
    dir: Option<TempDir>,
    saved: RefCell<[Option<State>; MAX_SAVED]>,
    clock: Clock,
    manual_clock: ManualClock,
}

impl InProcess {
    pub fn in_memory() -> Self {
        let (clock, manual_clock) = Clock::manual(0);
        let store = Arc::new(MemoryStore::new(precisions(), clock.clone()));
        Self {
            io: Builder::new_current_thread().build().unwrap(),
            store: RefCell::new(Some(store)),
            dir: None,
            saved: RefCell::default(),
            clock,
            manual_clock,
        }
    }

    pub fn in_file() -> Self {
        let mut in_process = Self::in_memory();
        in_process.dir = Some(TempDir::new("journal"));
        in_process.reopen(|_| {});
        in_process
    }

    fn current_store(&self) -> Arc<InProcessStore> {
        self.store.borrow().clone().unwrap()
    }

    /// The path of a snapshot or, for the number 0, of the store's file. `None` in memory.
    fn path(&self, number: usize) -> Option<PathBuf> {
        let dir = self.dir.as_ref()?;
        Some(dir.path().join(format!("{number}.redb")))
    }

    /// Closes the file, changes it, and opens it as the next process does.
    fn reopen(&self, change: impl FnOnce(&Path)) {
        let path = self.path(0).unwrap();
        drop(self.store.take());
        wait_until_released(&path);
        change(&path);
        let options = FileOptions::new(path).unwrap().precisions(precisions());
        let mut store = FileStore::open(options.clock(self.clock.clone())).unwrap();
        store.has_context_counters = true;
        *self.store.borrow_mut() = Some(Arc::new(store));
        // The store's thread opens the file before it answers.
        self.stored_state();
    }

    fn with<T: Send + 'static>(
        &self,
        access: StateAccess,
        action: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> T {
        let store = self.current_store();
        let done = store.with(access, |state| Ok(action(state)));
        self.io.block_on(done).unwrap()
    }

    fn stored_state(&self) -> StoredState {
        self.with(StateAccess::Read, |state| state.kept.clone())
    }

    fn page(&self, table: Table) -> TablePage {
        let reads = [TableRead::Page(table, None)];
        let store = self.current_store();
        let read = store.tables().read_tables(Purpose::Fold, &reads);
        self.io.block_on(read).unwrap().page()
    }

    /// Reads a table that has a number for each request.
    fn numbers(&self, table: Table) -> BTreeMap<usize, i64> {
        let page = self.page(table);
        assert_eq!(page.next, None, "one page has all requests of a run");
        let number = |bytes: &[u8]| -> i64 { std::str::from_utf8(bytes).unwrap().parse().unwrap() };
        let fields = page.fields.iter();
        let numbers = fields.map(|(id, n)| (number(id) as usize, number(n)));
        numbers.collect()
    }
}

impl TestedStore for InProcess {
    fn store(&self) -> Arc<dyn Store> {
        self.current_store()
    }

    fn io(&self) -> &Runtime {
        &self.io
    }

    fn manual_clock(&self) -> &ManualClock {
        &self.manual_clock
    }

    fn now(&self) -> i64 {
        self.clock.now_seconds()
    }

    fn clear(&self) {
        self.lose_all();
    }

    fn lose_all(&self) {
        if self.dir.is_some() {
            return self.reopen(|file| fs::remove_file(file).unwrap());
        }
        let generation = format!("memory-{:x}", fastrand::u64(..));
        let mut empty = State::new(generation, self.now(), Box::new(MemoryFields::default()));
        self.with(StateAccess::Write, move |state| {
            empty.tables.bound = state.tables.bound;
            *state = empty;
        });
    }

    fn save(&self, number: usize) {
        if let Some(copy) = self.path(number) {
            self.io.block_on(self.current_store().sync()).unwrap();
            fs::copy(self.path(0).unwrap(), copy).unwrap();
            return;
        }
        let saved = self.with(StateAccess::Read, |state| state.clone());
        self.saved.borrow_mut()[number - 1] = Some(saved);
    }

    fn restore(&self, number: usize) {
        if let Some(copy) = self.path(number) {
            return self.reopen(|file| fs::copy(copy, file).map(drop).unwrap());
        }
        let saved = self.saved.borrow()[number - 1].clone().unwrap();
        self.with(StateAccess::Write, move |state| *state = saved);
    }

    fn generation(&self) -> Option<(String, i64)> {
        let kept = self.stored_state();
        Some((kept.generation, kept.created))
    }

    fn fence(&self, instance: &str) -> u64 {
        let fences = self.stored_state().fences;
        fences.get(instance).map_or(0, |fence| fence.seq)
    }

    fn is_folded(&self) -> bool {
        let journal = self.stored_state().journal;
        journal.progress.committed == journal.head
    }

    fn counted(&self, exception: &str) -> u64 {
        let store = self.current_store();
        let status = self.io.block_on(store.status(self.now())).unwrap();
        let journal = self.stored_state().journal;
        match exception {
            "late" => status.exceptions.late,
            "skewed" => status.exceptions.skewed,
            "quarantined" => status.exceptions.quarantined,
            "set_aside" => journal.set_aside,
            "hole" => journal.hole_bytes,
            // No fault deletes only the state, so the journal is never orphaned.
            "orphaned" => 0,
            other => panic!("{other}"),
        }
    }

    fn counter(&self, precision: u32, name: &str) -> BTreeMap<String, i64> {
        let store = self.current_store();
        let slices = self.io.block_on(store.counter(name, precision));
        let slices = slices.unwrap().into_iter();
        slices.map(|(start, n)| (start.to_string(), n)).collect()
    }

    fn statistics(&self, _: &str) -> Option<(u64, u64)> {
        None
    }

    fn ranking(&self, name: &str) -> [BTreeMap<usize, i64>; 2] {
        let rankings = self.page(Table::Rankings).fields;
        let mut rankings = rankings.iter();
        let state = rankings.find(|(ranking, _)| ranking == name.as_bytes());
        let slices = state.map_or_else(Default::default, |(_, state)| {
            let state = unpack::<RankingState>(state);
            state.expect("the state of a ranking").slices
        });
        let mut sums = BTreeMap::new();
        for start in slices.iter().copied() {
            let ranking = name.into();
            for (id, n) in self.numbers(Table::RankingSlice { ranking, start }) {
                *sums.entry(id).or_default() += n;
            }
        }
        let ranking = name.into();
        [self.numbers(Table::RankingTotals { ranking }), sums]
    }

    fn reported_minutes(&self) -> Vec<i64> {
        // A run lasts a few hours by the clock of the tests.
        let minute = self.now().div_euclid(60);
        (minute - 1_000..minute + 1_000)
            .map(|minute| 60 * minute)
            .collect()
    }
}
