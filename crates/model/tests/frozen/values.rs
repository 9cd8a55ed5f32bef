//! The values that are frozen. Each stored field has a value.

use std::sync::Arc;

use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::entry::{EntryReader, Item};
use tower_pulse_model::failure::Failure;
use tower_pulse_model::histogram::{COARSE_SCALE, Histogram, SCALE};
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::mark::{Mark, StoredMark};
use tower_pulse_model::measures::Measure;
use tower_pulse_model::minute_report::{InstanceMinute, MinuteReport};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::profile::Profile;
use tower_pulse_model::ranking::specs::CarriedSpecs;
use tower_pulse_model::ranking::{RankingDelta, RankingSpec, RankingState};
use tower_pulse_model::recorded_hours::RecordedHours;
use tower_pulse_model::records::{Record, RecordId};
use tower_pulse_model::slice::{Precisions, hour_of};
use tower_pulse_model::slow_request::{RequestParts, SlowRequest, SlowRequests, TimerPart};
use tower_pulse_model::timer_sums::TimerSums;

/// A second that begins neither a minute nor an hour.
const NOW: i64 = 1_700_000_047;
const MS: u64 = 1_000_000;

pub(crate) const LISTS: [(&str, Kind); 2] = [
    ("slow requests of a context", Kind::Http),
    ("slow requests of all contexts", Kind::All),
];

pub(crate) fn aggregate() -> Aggregate {
    let mut aggregate = Aggregate::default();
    for (number, outcome) in (1u64..).zip(Outcome::ALL) {
        aggregate.times.record(number * 7 * MS);
        aggregate.outcomes.record(outcome, outcome.is_error());
    }
    aggregate.histogram = Histogram::new(SCALE, [(0, 3), (200, 2), (201, 4), (507, 1)]);
    aggregate.failures = Histogram::new(SCALE, [(200, 2), (201, 1)]);
    aggregate.censored = Histogram::new(COARSE_SCALE, [(126, 2)]);
    for (number, timer) in (1u64..).zip(["db:find", "render"]) {
        let sums = TimerSums {
            count: 10 * number,
            requests: 9,
            sum: 40 * number * MS,
            covered: 30 * number * MS,
        };
        let timer = RecordId::new(Kind::Timer, timer);
        aggregate.timers.add(timer, &sums);
    }
    aggregate.timers.covered = 55 * MS;
    let numbers = [7 * MS, 90 * MS, 5 * MS, 300, 2];
    for (measure, number) in Measure::ALL.iter().zip(numbers) {
        aggregate.measures.add(*measure, number);
    }
    for (code, n) in [(100, 1), (200, 2), (302, 1), (404, 1), (503, 1)] {
        aggregate.codes.add(code, n);
    }
    aggregate.codes.add_other(3);
    aggregate.kinds.add("db_timeout".into(), 2);
    aggregate.kinds.add_other(1);
    aggregate
}

pub(crate) fn record(rolled_until: Option<i64>) -> Record {
    let mut record = Record {
        sums: aggregate(),
        ..Record::default()
    };
    record.rolled_until = rolled_until.unwrap_or(record.rolled_until);
    record
}

fn slow_request(number: u64) -> SlowRequest {
    let is_error = number.is_multiple_of(2);
    let outcomes = [Outcome::Cancelled, Outcome::ServerError];
    SlowRequest {
        nanos: (1_000 - number) * MS,
        ended: NOW * 1_000 + number as i64,
        context: "GET /users/{id}".into(),
        instance: "web-1".into(),
        outcome: outcomes[usize::from(is_error)],
        is_error,
        status: is_error.then_some(503),
        trace_id: is_error.then(|| "0af7651916cd43dd8448eb211c80319c".into()),
        path: is_error.then(|| "/users/7".into()),
        parts: match is_error {
            true => parts(number),
            false => RequestParts::default(),
        },
        failure: is_error.then(|| Failure::new("db_timeout").with_message("no answer")),
    }
}

fn parts(number: u64) -> RequestParts {
    let part = |(timer, millis)| TimerPart {
        timer: RecordId::new(Kind::Timer, timer),
        count: number + 1,
        covered: millis * MS,
    };
    RequestParts {
        queue: Some(93 * MS),
        computing: Some(12 * MS),
        longest_poll: 8 * MS,
        timed: 700 * MS,
        timers: [("render", 600), ("db:find", 130)].map(part).into(),
    }
}

pub(crate) fn slow_requests(kind: Kind) -> SlowRequests {
    let mut list = SlowRequests::of(kind);
    (0..9).for_each(|number| list.add(slow_request(number)));
    list
}

pub(crate) fn batch() -> Batch {
    let mut batch = Batch::new(Precisions::default());
    for (name, kind) in [
        ("GET /users/{id}", Kind::Http),
        ("POST /é", Kind::Http),
        ("<all>", Kind::All),
        ("db:find", Kind::Timer),
    ] {
        let name: Arc<str> = name.into();
        let mut plain = aggregate();
        if kind == Kind::Timer {
            plain.timers = Default::default();
        }
        for second in [NOW - 3_600, NOW - 61, NOW] {
            batch.add(&name, kind, second, &plain);
        }
        let list = slow_requests(kind);
        batch.add_slowest(ContextId::new(kind, name), NOW, list);
    }
    for second in [NOW - 1, NOW] {
        batch.count(&"sales".into(), second, -7);
    }
    let mut ranking = RankingDelta::new(spec(60));
    ranking.remove(&"post 2".into());
    ranking.add(&"post 2".into(), NOW, 5);
    ranking.add(&"post 1".into(), NOW - 60, -2);
    ranking.dropped = 3;
    batch.add_ranking("posts".into(), ranking);
    batch.add_report(MinuteReport {
        minute: 1_700_000_040,
        instance: "web-1".into(),
        version: Some("1.4.2".into()),
        max_contexts: 20,
        is_side_by_side: true,
        contexts: instance_minute().contexts,
        machine: instance_minute().machine,
    });
    let version = Mark::of_version(NOW, &"1.4.2".into());
    for mark in [version, stored_mark(false).mark] {
        batch.add_mark(mark).expect("there is room");
    }
    batch.late = 4;
    batch.since = None;
    batch
}

pub(crate) fn unpacked(bytes: &[u8]) -> Option<Batch> {
    let mut reader = EntryReader::new(bytes).ok()?;
    let mut batch = Batch::new(reader.precisions().clone());
    batch.late = reader.late;
    while let Some(item) = reader.next().ok()? {
        match item {
            Item::Context(context, delta) => drop(batch.contexts.insert(context, delta)),
            Item::Counter(name, series) => drop(batch.counters.insert(name, series)),
            Item::Ranking(name, delta) => drop(batch.rankings.insert(name, delta)),
            Item::Report(report) => batch.reports.push(report),
            Item::Mark(mark) => drop(batch.marks.insert(mark.id.clone(), mark)),
        }
    }
    Some(batch)
}

pub(crate) fn instance_minute() -> InstanceMinute {
    let mut untimed = aggregate();
    untimed.timers = Default::default();
    let context = |name| (RecordId::new(Kind::Http, name), untimed.clone());
    InstanceMinute {
        version: Some("1.4.2".into()),
        max_contexts: 0,
        contexts: ["GET /users/{id}", "POST /é"].map(context).into(),
        machine: Some(MachineMinute {
            cpus: 4,
            cpu_thousandths: Some(1_500),
            resident_bytes: Some(50_000_000),
            open_files: None,
            max_open_files: Some(1_024),
            threads: Some(9),
            workers: 3,
            busy_thousandths: Some(250),
            queued_tasks: 2,
            alive_tasks: 70,
            delay_micros: Some(1_100),
            worst_delay_micros: Some(40_000),
        }),
    }
}

pub(crate) fn stored_mark(is_removed: bool) -> StoredMark {
    let mark = Mark::of_text("m1".to_owned(), NOW, "new index");
    StoredMark {
        mark: mark.expect("a good text"),
        is_removed,
    }
}

/// A profile of two weeks, with a half-recorded hour in the second week. Its times lose no digits when they are packed.
pub(crate) fn profile() -> Profile {
    let mut samples = Aggregate::default();
    for nanos in [500 * MS; 4] {
        samples.times.record(nanos);
        samples.outcomes.record(Outcome::ServerError, true);
    }
    let recorded = recorded_hours();
    let first = hour_of(NOW);
    let mut profile = Profile::beginning_at(first);
    for hour in [first, first + 3_600, first + 7 * 24 * 3_600] {
        assert!(profile.apply(hour, &samples, &recorded));
    }
    profile
}

pub(crate) fn recorded_hours() -> RecordedHours {
    let first = hour_of(NOW);
    let mut hours = RecordedHours::beginning_at(first);
    hours.push(first, 60);
    hours.push(first + 3_600, 60);
    hours.push(first + 7 * 24 * 3_600, 30);
    hours
}

fn spec(interval: u32) -> RankingSpec {
    RankingSpec {
        interval,
        slices: 24,
        max_ids: 1_000,
    }
}

pub(crate) fn ranking() -> RankingState {
    let mut ranking = RankingState::new(spec(3_600));
    ranking.slices.extend([hour_of(NOW), hour_of(NOW) - 3_600]);
    ranking
}

pub(crate) fn specs() -> CarriedSpecs {
    let mut specs = CarriedSpecs::default();
    specs.carry(spec(60), NOW);
    specs.carry(spec(3_600), NOW + 60);
    specs
}
