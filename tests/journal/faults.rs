//! Faults of instances and of the server.

use redis::cmd;
use tower_pulse_model::slice::hour_of;

use crate::journal::fleet::MAX_ALIVE;
use crate::journal::hours::{Expected, Garbage};
use crate::journal::ledger::CONTEXTS;
use crate::journal::net::Slot;
use crate::journal::process::Process;
use crate::journal::redis_under_test::RedisUnderTest;
use crate::journal::scheduler::Scheduler;
use crate::journal::tested_store::MAX_SAVED;

/// The most snapshots that are kept. A failover goes back by fewer.
const MAX_SNAPSHOTS: usize = 12;
/// The most seconds that a failover may lose. Replays must cover losses of this size.
const MAX_LAG: i64 = 50;
/// If a failover loses a whole generation that is younger than this many seconds, instances replay all of its calls.
const YOUNG: i64 = 50;

/// The data of the store after a call that may write, or after a fault.
pub struct Snapshot {
    number: usize,
    taken_at: i64,
    expected: Expected,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Whether calls that wait during a failover reach the new server later. Otherwise these calls are lost.
    pub delays_calls: bool,
    /// Whether the state or the journal may be deleted alone.
    pub deletes_keys: bool,
    /// Whether instances of a later version of this crate append entries. Folders then wait for up to ten minutes.
    pub has_newer_instances: bool,
    /// Scales the probability of faults, from 0 to 1. Calls and answers are lost or late at any intensity.
    pub intensity: f64,
    pub history: AskForHistory,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskForHistory {
    #[default]
    NoInstance,
    Some,
    /// All instances, with different numbers of days.
    All,
}

impl Scheduler<'_> {
    pub fn apply_fault(&mut self, x: f64) {
        if self.rng.f64() > self.faults.intensity {
            return;
        }
        match x {
            ..0.93 => self.freeze_or_thaw(),
            ..0.945 => self.interrupt(),
            ..0.955 if self.rng.f64() < 0.6 => self.kill(),
            ..0.96 if self.alive().len() < MAX_ALIVE => self.spawn(),
            ..0.98 => self.fail_over(),
            ..0.983 => self.lose_all(),
            ..0.988 => self.evict(),
            ..0.993 => match self.expected.garbage {
                Some(_) => self.remove_garbage(),
                None => self.put_garbage(),
            },
            ..0.996 if !self.faults.deletes_keys => self.add_foreign(),
            _ if self.faults.deletes_keys => self.evict(),
            _ => self.append_newer(),
        }
    }

    /// Whether the book's keys and the records may differ, because the state or the journal was deleted alone.
    pub fn may_differ(&self) -> bool {
        self.faults.deletes_keys
    }

    pub fn take_snapshot(&mut self) {
        let is_used = |number: &usize| self.snapshots.iter().any(|s| s.number == *number);
        let mut free = 1..=MAX_SAVED;
        let number = match self.snapshots.len() < MAX_SNAPSHOTS {
            true => free.find(|number| !is_used(number)).unwrap(),
            false => self.snapshots.pop_front().unwrap().number,
        };
        self.data.save(number);
        self.snapshots.push_back(Snapshot {
            number,
            taken_at: self.now(),
            expected: self.expected.clone(),
        });
    }

    fn freeze_or_thaw(&mut self) {
        let alive = self.alive();
        let at = alive[self.rng.usize(..alive.len())];
        let instance = &mut self.instances[at];
        instance.is_frozen = !instance.is_frozen;
        let event = ["thaws", "freezes"][usize::from(instance.is_frozen)];
        self.log(format!("instance {at} {event}"));
    }

    /// Drops the flush or the fold of an instance, or replaces its folder by a new one, which has no cached records.
    fn interrupt(&mut self) {
        let Some(at) = self.any_running() else { return };
        let number = self.rng.usize(..2);
        self.abandon_call(at, number);
        let instance = &mut self.instances[at];
        let wire = instance.processes[number].wire.clone();
        *wire.slot() = Slot::default();
        let (name, process) = (format!("instance {at}"), &mut instance.processes[number]);
        let event = if number == 0 {
            *process = Process::flusher(&process.name.clone(), &wire, instance.flusher.clone());
            "flush is dropped"
        } else if self.rng.bool() {
            *process = Process::folder(&process.name.clone(), &wire, instance.folder.clone());
            "fold is dropped"
        } else {
            let (folder, folding) = self.new_folder(at);
            self.instances[at].folder = folder;
            self.instances[at].processes[number] = folding;
            "folder crashes"
        };
        self.log(format!("{name}: its {event}"));
    }

    /// Abandons the call that a process waits for. The call may reach the store later, but no process gets the answer.
    fn abandon_call(&mut self, at: usize, number: usize) {
        let process = &self.instances[at].processes[number];
        if let Some(request) = process.take_request() {
            self.abandoned.push((process.name.clone(), request));
        }
    }

    fn kill(&mut self) {
        let Some(at) = self.any_running() else { return };
        self.abandon_call(at, 0);
        self.abandon_call(at, 1);
        self.instances[at].processes.clear();
        let data = self.data;
        self.ledger
            .excuse_killed(at, |instance| data.fence(instance));
        self.log(format!("instance {at} is killed"));
        if self.alive().is_empty() {
            self.spawn();
        }
    }

    fn fail_over(&mut self) {
        let is_recent = |snapshot: &&Snapshot| snapshot.taken_at + MAX_LAG > self.now();
        let recent = self.snapshots.iter().rev().take_while(is_recent).count();
        let lost = self.rng.usize(..recent.max(1));
        let old = self.data.generation();
        self.snapshots.truncate(self.snapshots.len() - lost);
        let snapshot = self.snapshots.back().unwrap();
        self.data.restore(snapshot.number);
        self.expected = snapshot.expected.clone();
        let age = (old.as_ref()).map_or(0, |(_, created)| self.data.now() - created);
        self.server_ahead = [-3, 0, 0, 3][self.rng.usize(..4)];
        self.set_server_clock();
        let new = self.data.generation();
        let is_other = new != old;
        self.log(format!("FAILOVER: the last {lost} scripts are lost"));
        let alive = self.alive();
        if is_other && (new.is_some() || age >= YOUNG) {
            // A failover that undoes a FLUSHDB, or loses too much to be replayed, is a reset.
            self.ledger.excuse_sent(|at| alive.contains(&at));
        }
        self.ledger.excuse_dead(|at| alive.contains(&at));
        if !self.faults.delays_calls {
            self.break_connections();
        }
    }

    /// Loses all calls that have not reached the store.
    pub fn break_connections(&mut self) {
        self.abandoned.clear();
        for at in 0..self.instances.len() {
            for number in 0..self.instances[at].processes.len() {
                self.time_out(at, number, true);
            }
        }
    }

    fn lose_all(&mut self) {
        self.log("FLUSHDB".to_owned());
        self.data.lose_all();
        self.expected = Expected::default();
        self.take_snapshot();
        let alive = self.alive();
        self.ledger.excuse_sent(|at| alive.contains(&at));
    }

    fn evict(&mut self) {
        let Some(server) = self.data.redis() else {
            return;
        };
        let key = match (self.faults.deletes_keys, self.rng.bool()) {
            (false, _) => "pulse:lease:fold",
            (true, true) => "pulse:state",
            (true, false) => "pulse:journal",
        };
        let () = server.query(cmd("DEL").arg(key));
        self.log(format!("{key} is evicted"));
        self.take_snapshot();
    }

    fn put_garbage(&mut self) {
        let Some(server) = self.data.redis() else {
            return;
        };
        let context = CONTEXTS[self.rng.usize(..CONTEXTS.len())].to_owned();
        let (key, slice) = (format!("count:3600:hits:{context}"), hour_of(self.now()));
        let before = server.query(cmd("HGET").arg(&key).arg(slice));
        let () = server.query(cmd("HSET").arg(&key).arg(slice).arg("garbage"));
        self.log(format!("garbage in {key}"));
        self.expected.garbage = Some(Garbage {
            context,
            slice,
            before,
        });
        self.take_snapshot();
    }

    pub fn remove_garbage(&mut self) {
        let Some(server) = self.data.redis() else {
            return;
        };
        let Some(garbage) = self.expected.garbage.take() else {
            return;
        };
        let (key, slice) = (
            format!("count:3600:hits:{}", garbage.context),
            garbage.slice,
        );
        let () = match garbage.before {
            Some(before) => server.query(cmd("HSET").arg(&key).arg(slice).arg(before)),
            None => server.query(cmd("HDEL").arg(&key).arg(slice)),
        };
        self.log(format!("{key} is repaired"));
        self.take_snapshot();
    }

    fn append_newer(&mut self) {
        if self.faults.has_newer_instances
            && self.data.redis().is_some_and(RedisUnderTest::append_newer)
        {
            self.log("an instance of a later version appends".to_owned());
            self.expected.newer += 1;
            self.take_snapshot();
        }
    }

    /// Lets another program add to the journal. The server may then refuse entries of this crate, because their ids are
    /// lower than the added id.
    fn add_foreign(&mut self) {
        let distance = [None, Some(0), Some(40), Some(400)][self.rng.usize(..4)];
        let redis = self.data.redis();
        if redis.is_some_and(|server| server.add_foreign(distance)) {
            self.log(format!("another program adds to the journal: {distance:?}"));
            self.take_snapshot();
        }
    }
}
