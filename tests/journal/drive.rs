//! Processes that a test drives call by call.

use std::sync::Arc;
use std::time::Duration;

use redis::cmd;
use tower_pulse::{Clock, ManualClock};
use tower_pulse_core::store::Position;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, Kind};
use tower_pulse_model::histogram::bucket_of;
use tower_pulse_model::outcome::Outcome;

use crate::journal::net::{Reply, Request, Wire};
use crate::journal::process::{Process, Sleep};
use crate::journal::redis_under_test::{RedisUnderTest, precisions};
use crate::journal::tested_store::{TestedStore, describe};
use crate::rig::instances::{TestFlusher, TestFolder};
use crate::rig::reads::StoreReads;
use crate::stores::fixture::{MS, NOW, aggregate_of};

pub const LEASE: &str = "pulse:lease:fold";
const JOURNAL_BYTES: u64 = 64 << 20;
const REPLAY_BYTES: usize = 1 << 20;
/// The most calls of one flush or one fold.
const MAX_CALLS: usize = 10_000;

/// A server, and the clock of the processes that use it.
pub struct Drive {
    pub data: RedisUnderTest,
    clock: Clock,
    manual_clock: ManualClock,
    sleep: Sleep,
}

impl Drive {
    pub fn start() -> Self {
        Self::with_journal_bytes(JOURNAL_BYTES)
    }

    /// Starts a server, a process that flushes, and a process that folds.
    pub fn with_processes() -> (Self, Process, Process) {
        let drive = Self::start();
        let (flushing, folding) = (drive.flusher(), drive.folder("folder"));
        (drive, flushing, folding)
    }

    /// Starts a server whose journal is full at `bytes`.
    pub fn with_journal_bytes(bytes: u64) -> Self {
        let data = RedisUnderTest::with_journal_bytes(bytes);
        let (clock, manual_clock) = Clock::manual(NOW);
        data.manual_clock.set_wall(NOW);
        Self {
            data,
            clock,
            manual_clock,
            sleep: Sleep::new(),
        }
    }

    pub fn advance(&self, seconds: u64) {
        self.manual_clock.advance(Duration::from_secs(seconds));
        self.data.manual_clock.set_wall(self.clock.now_seconds());
    }

    /// Advances the clocks by `minutes` minutes. In each minute, the folder tries once to fold.
    pub fn wait(&self, folding: &mut Process, minutes: u64) {
        for _ in 0..minutes {
            self.advance(60);
            self.run_once(folding);
        }
    }

    pub fn flusher(&self) -> Process {
        let wire = Wire::default();
        let store = Arc::new(wire.clone());
        let flusher = TestFlusher::new(store, self.clock.clone(), precisions(), REPLAY_BYTES);
        let mut process = Process::flusher("flusher", &wire, flusher);
        assert!(process.resume(&self.sleep), "the process has ended");
        process
    }

    /// Lets an instance append a request of each context in one flush.
    pub fn send(&self, flushing: &mut Process, contexts: &[String]) {
        flushing.as_flusher().add(self.batch(contexts));
        self.run_once(flushing);
    }

    /// Gives an instance a request of each context, and runs the instance up to its append. Returns the append without
    /// delivering it.
    pub fn until_append(&self, flushing: &mut Process, contexts: &[String]) -> Request {
        flushing.as_flusher().add(self.batch(contexts));
        let append = |request: &Request| matches!(request, Request::Append(_));
        self.until(flushing, append).expect("the instance appends")
    }

    /// Lets a new instance append a request of each context.
    pub fn append(&self, contexts: &[String]) {
        self.send(&mut self.flusher(), contexts);
    }

    pub fn folder(&self, name: &str) -> Process {
        let wire = Wire::default();
        let store = Arc::new(wire.clone());
        let folder = TestFolder::new(store, self.clock.clone(), name, 10_000);
        let mut process = Process::folder(name, &wire, folder);
        assert!(process.resume(&self.sleep), "the process has ended");
        process
    }

    pub fn batch(&self, contexts: &[String]) -> Batch {
        self.batch_at(contexts, 0)
    }

    /// One request of each context, some seconds from now.
    pub fn batch_at(&self, contexts: &[String], seconds: i64) -> Batch {
        let mut batch = Batch::new(precisions());
        let second = self.clock.now_seconds() + seconds;
        let mut aggregate = aggregate_of(&[MS], Outcome::Completed);
        describe(&mut aggregate, bucket_of(MS) >> 2, 1);
        for context in contexts {
            let name = Arc::from(&**context);
            batch.add(&name, Kind::Http, second, &aggregate);
            batch.add(&Arc::from(ALL), Kind::All, second, &aggregate);
        }
        batch
    }

    /// Runs a process until it makes a call for which `stop` holds. Returns this call without delivering it, or `None`
    /// if the process pauses first.
    pub fn until(&self, process: &mut Process, stop: impl Fn(&Request) -> bool) -> Option<Request> {
        for _ in 0..MAX_CALLS {
            if !process.is_waiting() {
                assert!(process.resume(&self.sleep), "{} has ended", process.name);
            }
            let request = process.wire.slot().request.clone()?;
            if stop(&request) {
                return Some(request);
            }
            self.deliver(process);
        }
        panic!("{} never pauses", process.name);
    }

    /// Runs a process until it pauses: to the end of a flush or a fold.
    pub fn run_once(&self, process: &mut Process) {
        assert!(self.until(process, |_| false).is_none());
    }

    pub fn run_times(&self, process: &mut Process, times: usize) {
        (0..times).for_each(|_| self.run_once(process));
    }

    /// Delivers the call that a process waits for to the store, and the answer to the process.
    pub fn deliver(&self, process: &Process) -> Reply {
        let request = process.wire.slot().request.clone().unwrap();
        let reply = self.data.run(&request);
        process.answer(reply.clone());
        reply.unwrap_or_else(|error| panic!("{}: {request:?}: {error}", process.name))
    }

    /// The number of requests of a context in the book's keys, and in the records.
    pub fn counted(&self, context: &str) -> (u64, u64) {
        let recorded = self.data.records(context, 3_600);
        (self.hits(context), recorded.values().sum())
    }

    fn hits(&self, context: &str) -> u64 {
        let hits = self.data.counter(3_600, &format!("hits:{context}"));
        hits.values().sum::<i64>() as u64
    }

    /// Checks that the book's keys, and the records in slices of `widths` seconds, have `expected` requests of each
    /// context.
    pub fn assert_counted(&self, names: &[String], widths: &[u32], expected: u64) {
        for name in names {
            assert_eq!(self.hits(name), expected, "{name}");
        }
        for width in widths {
            let counts = self.data.store.counts_of(names, *width, self.data.now());
            let counts = self.data.block_on(counts).unwrap();
            for (name, counted) in names.iter().zip(counts) {
                assert_eq!(counted, expected, "{name} at {width}");
            }
        }
    }

    /// A field of `pulse:state`; empty if there is none.
    pub fn field(&self, name: &str) -> String {
        self.data.state().remove(name).unwrap_or_default()
    }

    pub fn number(&self, field: &str) -> u64 {
        self.data.counted(field)
    }

    pub fn set(&self, field: &str, value: &str) {
        let mut set = cmd("HSET");
        let () = self.data.query(set.arg("pulse:state").arg(&[field, value]));
    }

    /// The position of the newest entry.
    pub fn head(&self) -> Position {
        self.field("head").parse().unwrap()
    }

    pub fn delete(&self, key: &str) {
        let () = self.data.query(cmd("DEL").arg(key));
    }

    pub fn free_lease(&self) {
        self.delete(LEASE);
    }

    /// Lets new folders take over one after another. Each of them folds once.
    pub fn take_over(&self, times: usize) {
        for _ in 0..times {
            self.free_lease();
            self.run_once(&mut self.folder("next"));
        }
    }

    /// Limits the server's memory. 0 removes the limit.
    pub fn limit_memory(&self, bytes: &str) {
        let mut config = cmd("CONFIG");
        let () = self.data.query(config.arg(&["SET", "maxmemory", bytes]));
    }

    pub fn entries(&self) -> usize {
        self.data.query(cmd("XLEN").arg("pulse:journal"))
    }
}

pub fn contexts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("GET /{number}")).collect()
}
