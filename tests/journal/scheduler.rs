//! The scheduler. Its seed determines which process continues, which call reaches the store, and which fault occurs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fastrand::Rng;
use tower_pulse::{Clock, ManualClock, StoreError, StoreErrorKind};
use tower_pulse_core::store::journal::{Acquired, VersionedResult};
use tower_pulse_core::store::{Appended, Readable};
use tower_pulse_model::minute_report::REPORTED_MINUTES;

use crate::journal::faults::{Faults, Snapshot};
use crate::journal::fleet::{Instance, MAX_ALIVE};
use crate::journal::hours::Expected;
use crate::journal::ledger::{CONTEXTS, Ledger, MAX_REQUESTS};
use crate::journal::net::{Reply, Request};
use crate::journal::process::{Process, Sleep};
use crate::journal::redis_under_test::RedisUnderTest;
use crate::journal::tested_store::TestedStore;
use crate::stores::fixture::THIS_HOUR;

/// A run begins this many seconds before the end of an hour.
const BEFORE_THE_HOUR: i64 = 20;
/// The time to live of the fold lease, in seconds. The scheduler deletes the lease's key by the tests' clock.
const LEASE: i64 = 5;
/// The time to live of the lease in turns without faults. A call takes some seconds of the tests' clock. If several
/// folders competed for a shorter lease, no folder would keep the lease for all calls of a round.
const LEASE_WITHOUT_FAULTS: i64 = 60;
/// If the clock advances by more seconds at once, the calls that have not reached the store are lost.
const MAX_DELAY: i64 = 300;
/// The turns without faults within which all work must be complete.
const MAX_TURNS_WITHOUT_FAULTS: usize = 6_000;
/// While folders wait for an instance of a later version, the scheduler advances the clock by a minute in one of this
/// many turns without faults.
const TURNS_PER_WAIT: usize = 40;

/// A call that has not reached the store.
#[derive(Clone, Copy)]
enum Message {
    /// A process waits for the answer.
    Awaited(usize, usize),
    /// No process waits for the answer.
    Abandoned(usize),
}

pub struct Scheduler<'a> {
    pub data: &'a dyn TestedStore,
    pub rng: Rng,
    pub faults: Faults,
    sleep: Sleep,
    pub clock: Clock,
    manual_clock: ManualClock,
    /// The seconds by which the server's clock is ahead of the instances' clock.
    pub server_ahead: i64,
    pub instances: Vec<Instance>,
    /// Calls that have not reached the store. No process waits for their answers.
    pub abandoned: Vec<(String, Request)>,
    /// The data after each of the last calls that may write, the newest last.
    pub snapshots: VecDeque<Snapshot>,
    pub expected: Expected,
    pub ledger: Ledger,
    lease_until: i64,
    /// The instance that folds, if the store is in one process.
    holder: Option<String>,
    faults_have_ended: bool,
    pub violations: Vec<String>,
    pub events: Vec<String>,
}

impl<'a> Scheduler<'a> {
    pub fn new(data: &'a dyn TestedStore, seed: u64, faults: Faults) -> Self {
        fastrand::seed(seed);
        let start = THIS_HOUR - BEFORE_THE_HOUR;
        let (clock, manual_clock) = Clock::manual(start);
        data.manual_clock().set_wall(start);
        data.clear();
        let mut scheduler = Self {
            data,
            rng: Rng::with_seed(seed),
            faults,
            sleep: Sleep::new(),
            clock,
            manual_clock,
            server_ahead: 0,
            instances: Vec::new(),
            abandoned: Vec::new(),
            snapshots: VecDeque::new(),
            expected: Expected::default(),
            ledger: Ledger::default(),
            lease_until: 0,
            holder: None,
            faults_have_ended: false,
            violations: Vec::new(),
            events: Vec::new(),
        };
        scheduler.take_snapshot();
        for _ in 0..scheduler.rng.usize(1..=MAX_ALIVE) {
            scheduler.spawn();
        }
        scheduler
    }

    /// Whether a report may have been appended after the retention of its minute.
    pub fn has_outlasted_reports(&self) -> bool {
        let passed = self.data.now() - (THIS_HOUR - BEFORE_THE_HOUR);
        passed + 3_600 > REPORTED_MINUTES.span()
    }

    /// Takes `turns` turns with faults, then turns without faults until all work is complete, then runs the checks.
    pub fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            self.take_turn();
        }
        self.end_faults();
        for turn in 1..=MAX_TURNS_WITHOUT_FAULTS {
            self.take_turn();
            let redis = self.data.redis();
            let is_waiting = || redis.is_some_and(RedisUnderTest::is_waiting_for_newer);
            if turn % TURNS_PER_WAIT == 0 && is_waiting() {
                self.advance(61);
            }
            if turn % 10 == 0 && self.is_complete() {
                return self.check();
            }
        }
        self.add_violation("stuck".to_owned());
    }

    fn end_faults(&mut self) {
        self.log("--- faults end".to_owned());
        self.faults_have_ended = true;
        self.remove_garbage();
        let rng = &mut self.rng;
        self.abandoned.retain(|_| rng.f64() > 0.3);
        for instance in &mut self.instances {
            instance.is_frozen = false;
            for process in &instance.processes {
                process.wire.slot().idle_flushes = 0;
            }
        }
    }

    fn is_complete(&self) -> bool {
        let alive = self.alive();
        let mut alive = alive.iter().map(|at| &self.instances[*at].processes);
        self.abandoned.is_empty()
            && alive.all(|processes| {
                let idle_flushes = processes[0].wire.slot().idle_flushes;
                idle_flushes >= 3 && !processes.iter().any(Process::is_waiting)
            })
            && self.data.is_folded()
    }

    fn take_turn(&mut self) {
        if self.rng.f64() < 0.25 {
            self.advance_randomly();
        }
        let x = self.rng.f64();
        let ready = self.ready();
        let messages = self.messages();
        if x < 0.40 && !ready.is_empty() {
            let (at, process) = ready[self.rng.usize(..ready.len())];
            self.resume(at, process);
        } else if x < 0.72 && !messages.is_empty() {
            let message = messages[self.rng.usize(..messages.len())];
            self.deliver(message);
        } else if self.faults_have_ended {
        } else if x < 0.84 {
            self.serve();
        } else if x < 0.90 && !messages.is_empty() {
            let message = messages[self.rng.usize(..messages.len())];
            if let Message::Awaited(at, process) = message {
                let is_lost = self.rng.f64() < 0.3;
                self.time_out(at, process, is_lost);
            }
        } else {
            self.apply_fault(x);
        }
    }

    fn advance_randomly(&mut self) {
        let jumps = [3, 3, 8, 8, 15, 15, 30, 30, 61, 1_800];
        let is_jump = self.rng.f64() >= 0.97;
        let jump = jumps[self.rng.usize(..jumps.len())];
        self.advance(if is_jump { jump } else { 1 });
    }

    pub fn advance(&mut self, seconds: i64) {
        if seconds > MAX_DELAY {
            self.break_connections();
        }
        let time = Duration::from_secs(seconds as u64);
        self.manual_clock.advance(time);
        self.set_server_clock();
        if self.now() > self.lease_until
            && let Some(server) = self.data.redis()
        {
            let () = server.query(redis::cmd("DEL").arg("pulse:lease:fold"));
        }
    }

    fn prolong_lease(&mut self) {
        let lease = match self.faults_have_ended {
            true => LEASE_WITHOUT_FAULTS,
            false => LEASE,
        };
        self.lease_until = self.now() + lease;
    }

    pub fn set_server_clock(&self) {
        self.data
            .manual_clock()
            .set_wall(self.now() + self.server_ahead);
    }

    pub fn now(&self) -> i64 {
        self.clock.now_seconds()
    }

    fn messages(&self) -> Vec<Message> {
        let mut messages: Vec<_> = (0..self.abandoned.len()).map(Message::Abandoned).collect();
        let waiting = self.processes();
        let waiting = waiting.filter(|(_, process)| process.is_waiting());
        messages.extend(waiting.map(|((at, number), _)| Message::Awaited(at, number)));
        messages
    }

    fn resume(&mut self, at: usize, number: usize) {
        let process = &mut self.instances[at].processes[number];
        assert!(process.resume(&self.sleep), "{} has ended", process.name);
        match &mut process.wire.slot().request {
            Some(Request::Append(call)) => self.ledger.note_sent(call),
            // Limits the read to one entry or a few entries, or reads all.
            Some(Request::Read(_, _, _, bytes)) => *bytes = [1, 400, *bytes][self.rng.usize(..3)],
            _ => {}
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Abandoned(number) => {
                let (name, request) = self.abandoned.remove(number);
                self.execute(&format!("{name}, ABANDONED"), &request);
            }
            Message::Awaited(at, number) => {
                let process = &self.instances[at].processes[number];
                let request = process.wire.slot().request.clone().unwrap();
                let name = process.name.clone();
                let is_reply_lost = !self.faults_have_ended && self.rng.f64() < 0.08;
                let lost = if is_reply_lost { ", reply lost" } else { "" };
                let is_ahead = matches!(request, Request::Append(_)) && self.draw_clock_ahead();
                if is_ahead {
                    self.log("the server's clock is a day ahead for a moment".to_owned());
                    self.data.manual_clock().set_wall(self.now() + 86_400);
                }
                let reply = self.execute(&format!("{name}{lost}"), &request);
                self.set_server_clock();
                let process = &self.instances[at].processes[number];
                if let Reply::Append(Appended::Done(_) | Appended::Gap { .. } | Appended::Reset) =
                    reply
                {
                    process.wire.slot().idle_flushes = 0;
                }
                process.answer(match is_reply_lost {
                    true => Err(timed_out()),
                    false => Ok(reply),
                });
            }
        }
    }

    /// Draws whether the server's clock is ahead while the next entry is appended.
    fn draw_clock_ahead(&mut self) -> bool {
        !self.faults_have_ended && self.rng.f64() < 0.05 * self.faults.intensity
    }

    /// Lets a call time out. The call is lost, or may reach the store later.
    pub fn time_out(&mut self, at: usize, number: usize, is_lost: bool) {
        let process = &self.instances[at].processes[number];
        let Some(request) = process.take_request() else {
            return;
        };
        process.answer(Err(timed_out()));
        let name = process.name.clone();
        let fate = if is_lost { "lost" } else { "abandoned" };
        self.log(format!("{name}: {} is {fate}", short(&request)));
        if !is_lost {
            self.abandoned.push((name, request));
        }
    }

    fn execute(&mut self, name: &str, request: &Request) -> Reply {
        let reply = match self.refuses_lease(request) {
            true => Ok(Reply::Acquire(Acquired::HeldByOther)),
            false => self.data.run(request),
        };
        let reply = reply.unwrap_or_else(|error| {
            panic!("{name}: {request:?}: {error}\n{}", self.events.join("\n"))
        });
        if !matches!(request, Request::Read(..) | Request::LoadFields(..)) {
            self.log(format!("{name}: {} -> {}", short(request), short(&reply)));
        }
        match (request, &reply) {
            (Request::Fold(step), Reply::Fold(VersionedResult::Done(()))) => {
                self.expected.apply(step);
                self.prolong_lease();
            }
            (_, Reply::Acquire(Acquired::Mine(_)))
            | (_, Reply::Read(VersionedResult::Done(_)))
            | (_, Reply::LoadFields(VersionedResult::Done(_))) => self.prolong_lease(),
            (Request::Readable(call), Reply::Readable(Readable::Yes)) => {
                self.check_readable(&call.instance, call.seq);
            }
            _ => {}
        }
        if !request.is_reading() && !self.faults_have_ended {
            self.take_snapshot();
        }
        reply
    }

    /// Whether a call must not acquire the lease, because another instance folds. Redis decides this itself. For a
    /// store of one process, the scheduler decides, and remembers the holder.
    fn refuses_lease(&mut self, request: &Request) -> bool {
        let Request::Acquire(instance, _) = request else {
            return false;
        };
        if self.data.redis().is_some() {
            return false;
        }
        let is_free = self.now() > self.lease_until;
        let holder = self.holder.get_or_insert_with(|| instance.clone());
        if is_free {
            holder.clone_from(instance);
        }
        holder != instance
    }

    /// Checks that the requests of a call can be read, once the store reports the call as readable.
    fn check_readable(&mut self, instance: &str, seq: u64) {
        if self.may_differ() || self.lost() > 0 {
            return;
        }
        let mut records = BTreeMap::new();
        for id in self.ledger.requests_of_call(instance, seq) {
            let served = self.ledger.served[id].clone();
            if !served.is_whole() || served.hours_ahead > 0 || self.ledger.excused.contains(&id) {
                continue;
            }
            let read = || self.data.records(served.context, 3_600);
            let context_records = records.entry(served.context).or_insert_with(read);
            if !context_records.contains_key(&id) {
                self.add_violation(format!("{id} is reported as readable, but is not"));
            }
        }
    }

    fn serve(&mut self) {
        let Some(at) = self.any_running() else { return };
        if self.ledger.served.len() >= MAX_REQUESTS {
            return;
        }
        let context = CONTEXTS[self.rng.usize(..CONTEXTS.len())];
        let hours_ahead = [0, 0, 0, 0, -1, -2, 1, 2][self.rng.usize(..8)];
        let is_wide = self.rng.f64() < 0.15;
        let (now, id) = (self.now(), self.ledger.served.len());
        let batch = self.ledger.serve(at, context, now, hours_ahead, is_wide);
        self.instances[at].flusher.add(batch);
        self.log(format!(
            "instance {at} serves {id}: {context}, {hours_ahead} hours ahead"
        ));
    }

    pub fn log(&mut self, event: String) {
        let at = self.now() - THIS_HOUR;
        self.events.push(format!("{at:5} {event}"));
    }

    pub fn add_violation(&mut self, violation: String) {
        self.log(format!("VIOLATED {violation}"));
        self.violations.push(violation);
    }
}

fn timed_out() -> StoreError {
    StoreError::new(StoreErrorKind::TimedOut, "no answer")
}

/// A call or an answer, cut to a line.
fn short(message: &impl std::fmt::Debug) -> String {
    format!("{message:?}").chars().take(160).collect()
}
