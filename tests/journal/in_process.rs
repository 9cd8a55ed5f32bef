//! The stores of one process as the ground of a [`World`](crate::world::World): in memory, and in a file. Their instances
//! are driven as those of a server are, call by call, so that each takes over from others half-way.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tower_pulse::{Clock, ManualClock, StoreError};
use tower_pulse_core::store::in_process::{
    Access, InProcessStore, MemoryFields, State, StoredState,
};
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::table_reads::{Purpose, TablePage, TableRead};
use tower_pulse_core::store::{Query, Store, Upkeep};
use tower_pulse_file::{FileOptions, FileStore};
use tower_pulse_model::pack::unpack;
use tower_pulse_model::ranking::RankingState;

use crate::data::precisions;
use crate::ground::{Ground, MAX_SAVED};
use crate::rig::process::{TempDir, wait_until_released};
use crate::rig::reads::StoreReads;

/// Where a store in one process keeps its data.
pub trait Place {
    /// No data.
    fn new(io: &Runtime, clock: &Clock) -> Self;

    fn store(&self) -> Arc<InProcessStore>;

    /// Removes all data.
    fn lose_all(&self, io: &Runtime);

    /// Saves all data under a number.
    fn save(&self, io: &Runtime, number: usize);

    /// Takes all data back to what was saved under a number.
    fn restore(&self, io: &Runtime, number: usize);
}

/// A store in memory, and what was saved of it.
pub struct Memory {
    store: Arc<InProcessStore>,
    saved: RefCell<[Option<State>; MAX_SAVED]>,
}

impl Place for Memory {
    fn new(_: &Runtime, clock: &Clock) -> Self {
        Self {
            store: Arc::new(MemoryStore::new(precisions(), clock.clone())),
            saved: RefCell::default(),
        }
    }

    fn store(&self) -> Arc<InProcessStore> {
        self.store.clone()
    }

    fn lose_all(&self, io: &Runtime) {
        let now = self.store.now();
        let generation = format!("memory-{:x}", fastrand::u64(..));
        let mut empty = State::new(generation, now, Box::new(MemoryFields::default()));
        let reset = self.store.with(Access::Write, move |state| {
            empty.tables.bound = state.tables.bound;
            *state = empty;
            Ok(())
        });
        io.block_on(reset).unwrap();
    }

    fn save(&self, io: &Runtime, number: usize) {
        let saved = self.store.with(Access::Read, |state| Ok(state.clone()));
        self.saved.borrow_mut()[number - 1] = Some(io.block_on(saved).unwrap());
    }

    fn restore(&self, io: &Runtime, number: usize) {
        let saved = self.saved.borrow()[number - 1].clone().unwrap();
        let restored = self.store.with(Access::Write, move |state| {
            *state = saved;
            Ok(())
        });
        io.block_on(restored).unwrap();
    }
}

/// A store in a file, and copies of the file beside it. A process that takes the file back to a copy opens it as one does
/// after a crash.
pub struct InFile {
    clock: Clock,
    dir: TempDir,
    store: RefCell<Option<Arc<InProcessStore>>>,
}

impl InFile {
    /// The file, or a copy of it.
    fn path(&self, copy: Option<usize>) -> PathBuf {
        let name = copy.map_or_else(String::new, |number| number.to_string());
        self.dir.path().join(format!("pulse{name}.redb"))
    }

    /// Closes the file, lets something else be done with it, and opens it again.
    fn reopen(&self, io: &Runtime, meanwhile: impl FnOnce()) {
        drop(self.store.take());
        wait_until_released(&self.path(None));
        meanwhile();
        let options = FileOptions::new(self.path(None)).unwrap();
        let options = options.precisions(precisions()).clock(self.clock.clone());
        let options = options.with_context_counters();
        let store = FileStore::open(options).unwrap();
        // Its thread is opening the file.
        while io.block_on(kept(&store)).is_err() {
            assert!(store.warnings().is_empty(), "{:?}", store.warnings());
            std::thread::sleep(Duration::from_millis(1));
        }
        *self.store.borrow_mut() = Some(Arc::new(store));
    }
}

impl Place for InFile {
    fn new(io: &Runtime, clock: &Clock) -> Self {
        let place = Self {
            clock: clock.clone(),
            dir: TempDir::new("journal"),
            store: RefCell::default(),
        };
        place.reopen(io, || {});
        place
    }

    fn store(&self) -> Arc<InProcessStore> {
        self.store.borrow().clone().unwrap()
    }

    fn lose_all(&self, io: &Runtime) {
        self.reopen(io, || std::fs::remove_file(self.path(None)).unwrap());
    }

    fn save(&self, io: &Runtime, number: usize) {
        io.block_on(self.store().sync()).unwrap();
        std::fs::copy(self.path(None), self.path(Some(number))).unwrap();
    }

    fn restore(&self, io: &Runtime, number: usize) {
        self.reopen(io, || {
            std::fs::copy(self.path(Some(number)), self.path(None)).unwrap();
        });
    }
}

/// What a store keeps beside its tables.
async fn kept(store: &InProcessStore) -> Result<StoredState, StoreError> {
    let kept = store.with(Access::Read, |state| Ok(state.kept.clone()));
    kept.await
}

/// A store in one process, and its clock.
pub struct InProcess<P> {
    io: Runtime,
    place: P,
    clock: Clock,
    manual_clock: ManualClock,
}

impl<P: Place> InProcess<P> {
    pub fn start() -> Self {
        let io = Builder::new_current_thread().build().unwrap();
        let (clock, manual_clock) = Clock::manual(0);
        Self {
            place: P::new(&io, &clock),
            io,
            clock,
            manual_clock,
        }
    }

    fn kept(&self) -> StoredState {
        let store = self.place.store();
        self.io.block_on(kept(&store)).unwrap()
    }

    /// The first page of a table.
    fn page(&self, table: Table) -> TablePage {
        let reads = [TableRead::Page(table, None)];
        let store = self.place.store();
        let read = store.tables().read_tables(Purpose::Fold, &reads);
        self.io.block_on(read).unwrap().page()
    }

    /// The numbers of a table whose fields are requests.
    fn numbers(&self, table: Table) -> BTreeMap<usize, i64> {
        let page = self.page(table);
        assert_eq!(page.next, None, "one page has all requests of a run");
        let number = |bytes: &[u8]| -> i64 { std::str::from_utf8(bytes).unwrap().parse().unwrap() };
        let fields = page.fields.iter();
        let numbers = fields.map(|(id, n)| (number(id) as usize, number(n)));
        numbers.collect()
    }
}

impl<P: Place> Ground for InProcess<P> {
    fn store(&self) -> Arc<dyn Store> {
        self.place.store()
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
        self.place.lose_all(&self.io);
    }

    fn lose_all(&self) {
        self.place.lose_all(&self.io);
    }

    fn save(&self, number: usize) {
        self.place.save(&self.io, number);
    }

    fn restore(&self, number: usize) {
        self.place.restore(&self.io, number);
    }

    fn generation(&self) -> Option<(String, i64)> {
        let kept = self.kept();
        Some((kept.generation, kept.created))
    }

    fn version(&self) -> Option<String> {
        Some(self.kept().journal.progress.version)
    }

    fn fence(&self, instance: &str) -> u64 {
        let fences = self.kept().fences;
        fences.get(instance).map_or(0, |fence| fence.seq)
    }

    fn remove_all_fences(&self) {
        let store = self.place.store();
        let removed = store.with(Access::Write, |state| {
            state.kept.fences.clear();
            Ok(())
        });
        self.io.block_on(removed).unwrap();
    }

    fn is_folded(&self) -> bool {
        let journal = self.kept().journal;
        journal.progress.committed == journal.head
    }

    fn counted(&self, what: &str) -> u64 {
        let store = self.place.store();
        let status = self.io.block_on(store.status(self.now())).unwrap();
        let journal = self.kept().journal;
        match what {
            "late" => status.exceptions.late,
            "skewed" => status.exceptions.skewed,
            "quarantined" => status.exceptions.quarantined,
            "set_aside" => journal.set_aside,
            "hole" => journal.hole_bytes,
            // Nothing removes the state alone.
            "orphaned" => 0,
            other => panic!("{other}"),
        }
    }

    fn counter(&self, precision: u32, name: &str) -> BTreeMap<String, i64> {
        let store = self.place.store();
        let slices = self.io.block_on(store.counter(name, precision));
        let slices = slices.unwrap().into_iter();
        slices.map(|(start, n)| (start.to_string(), n)).collect()
    }

    fn statistics(&self, _: &str) -> Option<(u64, u64)> {
        None
    }

    fn ranking(&self, name: &str) -> [BTreeMap<usize, i64>; 2] {
        let rankings = self.page(Table::Rankings).fields;
        let state = rankings
            .iter()
            .find(|(ranking, _)| ranking == name.as_bytes());
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
        // A run is a few hours long.
        let minute = self.now().div_euclid(60);
        (minute - 1_000..minute + 1_000)
            .map(|minute| 60 * minute)
            .collect()
    }
}
