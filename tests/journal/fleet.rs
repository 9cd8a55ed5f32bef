//! The instances of a run.

use std::sync::Arc;

use tower_pulse_model::tiers::{LEAST_DAYS, MOST_DAYS};

use crate::journal::faults::AskForHistory;
use crate::journal::net::Wire;
use crate::journal::process::Process;
use crate::journal::redis_under_test::precisions;
use crate::journal::scheduler::Scheduler;
use crate::rig::instances::{TestFlusher, TestFolder};

pub const MAX_ALIVE: usize = 4;
/// The bytes that an instance keeps for replays: enough for all calls of a run, or for a few calls.
const MANY_BYTES: usize = 1 << 20;
const FEW_BYTES: usize = 12_000;

pub struct Instance {
    pub flusher: TestFlusher,
    pub folder: TestFolder,
    /// The flusher and the folder; empty once the instance is dead.
    pub processes: Vec<Process>,
    pub is_frozen: bool,
    pub replays_few_calls: bool,
}

impl Scheduler<'_> {
    pub fn alive(&self) -> Vec<usize> {
        let all = 0..self.instances.len();
        all.filter(|at| self.is_alive(*at)).collect()
    }

    pub fn is_alive(&self, at: usize) -> bool {
        !self.instances[at].processes.is_empty()
    }

    /// A random instance that is alive and not frozen.
    pub fn any_running(&mut self) -> Option<usize> {
        let mut awake = self.alive();
        awake.retain(|at| !self.instances[*at].is_frozen);
        (!awake.is_empty()).then(|| awake[self.rng.usize(..awake.len())])
    }

    pub fn spawn(&mut self) {
        let at = self.instances.len();
        let replay_bytes = [MANY_BYTES, MANY_BYTES, FEW_BYTES][self.rng.usize(..3)];
        let wire = Wire::default();
        let store = Arc::new(wire.clone());
        let flusher = TestFlusher::new(store, self.clock.clone(), precisions(), replay_bytes);
        let flushing = Process::flusher(&format!("flusher {at}"), &wire, flusher.clone());
        let (folder, folding) = self.new_folder(at);
        self.instances.push(Instance {
            flusher,
            folder,
            processes: vec![flushing, folding],
            is_frozen: false,
            replays_few_calls: replay_bytes < MANY_BYTES,
        });
        self.log(format!("instance {at} starts"));
    }

    /// A new folder for an instance, without cached records.
    pub fn new_folder(&mut self, at: usize) -> (TestFolder, Process) {
        let max_records = [1_000, 3][self.rng.usize(..2)];
        let wire = Wire::default();
        let store = Arc::new(wire.clone());
        let name = format!("folder {at}");
        let days = self.history_days();
        let folder = TestFolder::with_history(store, self.clock.clone(), &name, max_records, days);
        let process = Process::folder(&name, &wire, folder.clone());
        (folder, process)
    }

    fn history_days(&mut self) -> Option<u32> {
        let days = [Some(LEAST_DAYS), Some(30), Some(MOST_DAYS)];
        match self.faults.history {
            AskForHistory::NoInstance => None,
            AskForHistory::Some => [None, days[0], days[1]][self.rng.usize(..3)],
            AskForHistory::All => days[self.rng.usize(..3)],
        }
    }

    /// All processes, each with the number of its instance and its own number: 0 flushes, 1 folds.
    pub fn processes(&self) -> impl Iterator<Item = ((usize, usize), &Process)> {
        let instances = self.instances.iter().enumerate();
        instances.flat_map(|(at, instance)| {
            let processes = instance.processes.iter().enumerate();
            processes.map(move |(number, process)| ((at, number), process))
        })
    }

    pub fn ready(&self) -> Vec<(usize, usize)> {
        let mut ready = Vec::new();
        for (numbers, process) in self.processes() {
            if !self.instances[numbers.0].is_frozen && !process.is_waiting() {
                ready.push(numbers);
            }
        }
        ready
    }

    pub fn lost(&self) -> u64 {
        let instances = self.instances.iter();
        instances.map(|instance| instance.flusher.lost()).sum()
    }
}
