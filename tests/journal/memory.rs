//! The memory store as the ground of a [`World`](crate::world::World). Its instances are driven as those of a server
//! are, call by call, so that each takes over from others half-way.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tokio::runtime::{Builder, Runtime};
use tower_pulse::model::ranking::RankingState;
use tower_pulse::store::memory::{MemoryStore, Saved};
use tower_pulse::store::table::Table;
use tower_pulse::store::table_reads::{FieldPage, Purpose, TableRead, TableReader};
use tower_pulse::store::{Store, Upkeep};
use tower_pulse::{Clock, ManualClock};

use crate::data::precisions;
use crate::ground::{Ground, MAX_SAVED};
use crate::rig::reads::StoreReads;

/// A memory store, and what was saved of it.
pub struct Memory {
    io: Runtime,
    store: MemoryStore,
    clock: Clock,
    manual_clock: ManualClock,
    saved: RefCell<[Option<Saved>; MAX_SAVED]>,
}

impl Memory {
    pub fn start() -> Self {
        let (clock, manual_clock) = Clock::manual(0);
        Self {
            io: Builder::new_current_thread().build().unwrap(),
            store: MemoryStore::new(precisions(), clock.clone()),
            clock,
            manual_clock,
            saved: RefCell::default(),
        }
    }

    /// The first page of a table.
    fn page(&self, table: Table) -> FieldPage {
        let reads = [TableRead::Page(table, None)];
        let read = self.store.read_tables(Purpose::Fold, &reads);
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

impl Ground for Memory {
    fn store(&self) -> &dyn Store {
        &self.store
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
        self.store.reset();
    }

    fn lose_all(&self) {
        self.store.reset();
    }

    fn save(&self, number: usize) {
        self.saved.borrow_mut()[number - 1] = Some(self.store.save());
    }

    fn restore(&self, number: usize) {
        let saved = self.saved.borrow();
        self.store.restore(saved[number - 1].as_ref().unwrap());
    }

    fn generation(&self) -> Option<(String, i64)> {
        Some(self.store.generation())
    }

    fn version(&self) -> Option<String> {
        Some(self.store.version())
    }

    fn fence(&self, instance: &str) -> u64 {
        self.store.fence_of(instance)
    }

    fn remove_all_fences(&self) {
        self.store.remove_all_fences();
    }

    fn is_folded(&self) -> bool {
        self.store.is_folded()
    }

    fn counted(&self, what: &str) -> u64 {
        let status = self.io.block_on(self.store.status(self.now())).unwrap();
        let [set_aside, hole] = self.store.set_aside_and_gone();
        match what {
            "late" => status.exceptions.late,
            "skewed" => status.exceptions.skewed,
            "quarantined" => status.exceptions.quarantined,
            "set_aside" => set_aside,
            "hole" => hole,
            // Nothing removes the state alone.
            "orphaned" => 0,
            other => panic!("{other}"),
        }
    }

    fn counter(&self, precision: u32, name: &str) -> BTreeMap<String, i64> {
        let slices = self.io.block_on(self.store.counter(name, precision));
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
            let state = RankingState::from_text(std::str::from_utf8(state).unwrap());
            state.expect("the state of a ranking").slices
        });
        let mut sums = BTreeMap::new();
        for start in slices {
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
