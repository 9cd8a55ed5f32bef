//! Begins and ends conditions. Checks that health, the gauge `pulse_condition` (for `Unreachable` only at the end) and
//! `on_condition` report the beginning and the end. [`ELSEWHERE`] lists the conditions with tests in other files.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tower_pulse::admin::Access;
use tower_pulse::query::PathsQuery;
use tower_pulse::{Clock, Condition, ConditionEvent, ManualClock, Status};

use crate::faults::denials::SERVER_FAULTS;
use crate::faults::service::{PREFIX, Service, Stored, now, pause, with_clock};
use crate::rig::asking;
use crate::rig::server::RedisServer;
use crate::rig::wait::{PATIENCE, look_until};

const STATUS_TESTS: &str = "crates/core/src/store/status_health.rs";

/// The conditions that this file does not test, and the files with their tests.
const ELSEWHERE: &[(Condition, &str)] = &[
    (Condition::Judgement, "tests/changes/failures.rs"),
    (Condition::UnreadableKey, "tests/stores/oversized.rs"),
    (Condition::QuarantinedKey, "tests/faults/refusals.rs"),
    (Condition::GoneTable, "tests/faults/refusals.rs"),
    (Condition::LargeRow, "tests/rows/large.rs"),
    (Condition::RowRefresh, "tests/rows/outage.rs"),
    (Condition::OldServer, "crates/redis/src/server.rs"),
    (Condition::LoneNode, "crates/redis/src/server.rs"),
    (Condition::Sentinel, "tests/topologies/sentinel.rs"),
    (Condition::EmptyStore, "tests/dashboard/new_store.rs"),
    (Condition::File, "tests/file/trouble.rs"),
    (Condition::Clock, "tests/faults/skew.rs"),
    (Condition::JournalWaits, STATUS_TESTS),
    (Condition::NewerEntry, STATUS_TESTS),
    (Condition::RankingSpecs, STATUS_TESTS),
    (Condition::SetAside, STATUS_TESTS),
    (Condition::JournalHole, STATUS_TESTS),
    (Condition::Orphaned, STATUS_TESTS),
    (Condition::Skewed, STATUS_TESTS),
    (Condition::History, "tests/stores/history.rs"),
    (Condition::Routes, "tests/warnings.rs"),
    (Condition::Overflow, "tests/warnings.rs"),
    (Condition::HiddenStatements, "tests/layer/spans.rs"),
    (Condition::QueueHeader, "tests/layer/queue.rs"),
    (Condition::Configuration, "crates/admin/src/tests/access.rs"),
    (Condition::Lost, "tests/faults/losses.rs"),
];

struct Watched {
    service: Service,
    server: RedisServer,
    clock: Clock,
    manual_clock: ManualClock,
    events: Arc<Mutex<Vec<ConditionEvent>>>,
    /// The conditions that have begun and ended.
    tested: BTreeSet<Condition>,
}

impl Watched {
    async fn start() -> Self {
        let server = RedisServer::start().await;
        let (clock, manual_clock) = Clock::manual(now());
        let builder = with_clock(&server.url(), &clock).flush_interval(Duration::from_secs(1));
        let service = Service::new(builder.clean_interval(Duration::from_secs(1)));
        let events = Arc::<Mutex<Vec<ConditionEvent>>>::default();
        let noted = events.clone();
        service
            .pulse
            .on_condition(move |event| noted.lock().unwrap().push(event.clone()));
        service.requests(48).await;
        service.settle().await;
        Self {
            service,
            server,
            clock,
            manual_clock,
            events,
            tested: BTreeSet::new(),
        }
    }

    async fn gauge(&self, condition: Condition) -> String {
        let app = axum::Router::new().merge(self.service.pulse.mount("/pulse", Access::open()));
        let (_, text) = asking::text(&app, "/pulse/metrics").await;
        let begin = format!("pulse_condition{{name=\"{condition}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&begin));
        line.unwrap().to_owned()
    }

    /// Advances the clock until health and `on_condition` both report the condition as ongoing, or as ended if
    /// `is_ongoing` is false.
    async fn pass_until(&self, condition: Condition, is_ongoing: bool) {
        look_until(PATIENCE, async || {
            self.service.requests(1).await;
            let _ = self.service.pulse.query().ask(&PathsQuery::default()).await;
            self.manual_clock.advance(Duration::from_secs(1));
            pause(20).await;
            let health = self.service.health();
            let is_listed = health.conditions.contains(&condition);
            let events = self.events.lock().unwrap();
            let last = events.iter().rfind(|event| event.condition == condition);
            let is_reported = last.is_some_and(|event| event.ended.is_none());
            let why = || format!("{condition}, {is_ongoing}: {is_listed}, {last:?}, {health:#?}");
            (is_listed == is_ongoing && is_reported == is_ongoing)
                .then_some(())
                .ok_or_else(why)
        })
        .await;
    }

    async fn until_begun(&self, condition: Condition) {
        self.pass_until(condition, true).await;
        if condition != Condition::Unreachable {
            assert_eq!(self.gauge(condition).await, "1", "{condition}");
        }
        assert!(!self.service.health().warnings.is_empty(), "{condition}");
    }

    async fn until_ended(&mut self, condition: Condition) {
        self.pass_until(condition, false).await;
        assert_eq!(self.gauge(condition).await, "0", "{condition}");
        self.tested.insert(condition);
    }
}

#[tokio::test]
async fn each_condition_is_reported_until_its_cause_has_ended() {
    let mut watched = Watched::start().await;
    for fault in &SERVER_FAULTS {
        let mut all = Condition::ALL.iter().copied();
        let condition = all.find(|condition| condition.as_str() == fault.0).unwrap();
        let () = watched.server.run(&fault.command(true)).await;
        watched.until_begun(condition).await;
        let () = watched.server.run(&fault.command(false)).await;
        watched.until_ended(condition).await;
    }
    watched.server.freeze();
    watched.until_begun(Condition::Unreachable).await;
    watched.server.thaw();
    watched.until_ended(Condition::Unreachable).await;
    let replace = format!("SET {PREFIX}pulse:instances x");
    let () = watched.server.run(&replace).await;
    watched.until_begun(Condition::ReplacedKey).await;
    watched.until_ended(Condition::ReplacedKey).await;

    let other = with_clock(&watched.server.url(), &watched.clock).instance("web-2");
    let other = other.flush_interval(Duration::from_secs(1));
    let (other, tasks) = other.build_with_tasks().unwrap();
    let mut running = JoinSet::new();
    tasks.into_iter().for_each(|task| drop(running.spawn(task)));
    look_until(PATIENCE, async || {
        watched.manual_clock.advance(Duration::from_secs(1));
        pause(20).await;
        let status = other.health().status;
        let is_ok = (status == Status::Ok).then_some(());
        is_ok.ok_or(status.to_string())
    })
    .await;
    running.shutdown().await;
    watched.until_begun(Condition::SilentInstance).await;
    let warnings = watched.service.health().warnings;
    let is_named = |text: &String| text.starts_with("web-2 has sent no");
    assert!(warnings.iter().any(is_named), "{warnings:?}");
    watched.manual_clock.advance(Duration::from_secs(60));
    watched.until_ended(Condition::SilentInstance).await;
    watched.service.settle().await;
    watched.service.assert_well();
    let stored = Stored::read(&mut watched.server.connection().await).await;
    let total = watched.service.oracle.served() as i64;
    assert_eq!((stored.total(), stored.by_page()), (total, total));

    let () = watched.server.run("FLUSHALL").await;
    watched.until_begun(Condition::StoreReset).await;
    watched.manual_clock.advance(Duration::from_secs(600));
    watched.until_ended(Condition::StoreReset).await;
    let resets = watched.service.health().flush.store_resets;
    assert_eq!(resets, 1, "the reset is still counted");

    let elsewhere: BTreeSet<_> = ELSEWHERE.iter().map(|(condition, _)| *condition).collect();
    let tested: BTreeSet<_> = watched.tested.union(&elsewhere).copied().collect();
    assert_eq!(tested, Condition::ALL.iter().copied().collect());
    for (condition, file) in ELSEWHERE {
        let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
        let test = std::fs::read_to_string(path).expect(file);
        let variant = format!("Condition::{condition:?}");
        assert!(test.contains(&variant), "{file} does not test {variant}");
    }
}
