//! Dashboards warn of an instance with a wrong clock. If the clock is wrong by more than an hour, the instance uses the
//! store's time. When the instance changes to the store's time or back, no request is lost or counted twice.

use std::time::Duration;

use serde_json::Value;
use tower_pulse::query::{MarksQuery, Reader};
use tower_pulse::{Clock, Condition, Dashboard, ManualClock};
use tower_pulse_model::slice::HOUR;

use crate::faults::service::{
    PAGES, PATIENT, PREFIX, Service, Stored, context, now, options, with_clocks,
};
use crate::rig::reads::{StoreOf, StoreReads};
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::look_until;

const DAY: i64 = 24 * HOUR;
/// The time between two heartbeats of an instance that flushes once a minute.
const BEAT: Duration = Duration::from_secs(20);

/// An instance with the store's clock, an instance with another clock, and a dashboard.
struct Fleet {
    server: RedisServer,
    /// The store's clock.
    clock: Clock,
    right: Service,
    wrong: Service,
    /// The clock of `wrong`.
    wrong_clock: ManualClock,
    dashboard: Dashboard,
    manual_clocks: Vec<ManualClock>,
}

impl Fleet {
    async fn new(offset: i64) -> Self {
        let server = RedisServer::start().await;
        let (clock, server_clock) = Clock::manual(now());
        let builder = |name: &str, own: &Clock| {
            with_clocks(options(&server.url(), PATIENT), &clock, own).instance(name)
        };
        let right = Service::new(builder("right", &clock));
        let (own, wrong_clock) = Clock::manual(now() + offset);
        let wrong = right.join(builder("wrong", &own));
        let dashboard = Dashboard::builder().redis(server.url()).prefix(PREFIX);
        let dashboard = dashboard.clock(clock.clone()).build().unwrap();
        Self {
            server,
            clock,
            right,
            wrong,
            manual_clocks: vec![server_clock, wrong_clock.clone()],
            wrong_clock,
            dashboard,
        }
    }

    /// Lets the time between two heartbeats pass for each clock.
    async fn pass(&self) {
        for manual_clock in &self.manual_clocks {
            manual_clock.advance(BEAT);
        }
        self.until_answered().await;
    }

    /// Waits until each instance has got an answer of the store within the last half second.
    async fn until_answered(&self) {
        look_until(Duration::from_secs(10), async || {
            let services = [&self.right, &self.wrong].into_iter();
            let stores: Vec<_> = services.map(|service| service.health().store).collect();
            let mut ages = stores.iter().map(|store| store.contact_age_seconds);
            let are_answered = ages.all(|age| age.is_some_and(|age| age < 0.5));
            are_answered.then_some(()).ok_or(format!("{stores:?}"))
        })
        .await;
    }

    fn readers(&self) -> [&Reader; 3] {
        let [right, wrong] = [&self.right, &self.wrong].map(|service| service.pulse.query());
        [right, wrong, self.dashboard.query()]
    }

    /// Panics unless each dashboard shows this number of requests in its last five minutes.
    async fn assert_shown(&self, requests: usize) {
        for service in [&self.right, &self.wrong] {
            service.settle().await;
        }
        // After these two passes, the second of the last request is over, and cached answers are read again.
        self.pass().await;
        self.pass().await;
        for reader in self.readers() {
            let overview = answer(reader, "overview?window=5m").await;
            assert_eq!(overview["window"]["count"], requests, "{overview}");
            let (at, as_of) = (self.clock.now_seconds(), overview["as_of"].as_i64());
            assert!((at - as_of.unwrap()).abs() < 10, "{as_of:?} at {at}");
            assert_eq!(overview["instances"], 2);
        }
    }

    /// The requests of all pages in the records.
    async fn recorded(&self) -> u64 {
        let (store, mut count) = (self.right.pulse.backend(), 0);
        for page in 0..PAGES {
            let context = context(page);
            let records = store.records_of(&context, HOUR as u32, self.clock.now_seconds());
            let records = records.await.unwrap().into_iter();
            count += records.map(|(_, sums)| sums.histogram.count()).sum::<u64>();
        }
        count
    }
}

async fn answer(reader: &Reader, question: &str) -> Value {
    serde_json::from_str(&reader.json(question).await.unwrap()).unwrap()
}

async fn clock_warnings(reader: &Reader) -> Vec<String> {
    let mut warnings = reader.health().await.warnings;
    warnings.retain(|text| text.contains("the clock of"));
    warnings
}

async fn check_use_of_store_time(offset: i64, apart: &str) {
    let fleet = Fleet::new(offset).await;
    let wrong = &fleet.wrong;
    wrong.requests(24).await;
    fleet.until_answered().await;
    let health = wrong.health();
    let skew = health.store.clock_skew_seconds.unwrap();
    assert_eq!(skew, offset);
    let own = format!("the clock of this instance (wrong) is {apart} the store's; set it (NTP); ");
    let is_own = |text: &String| text.starts_with(&own);
    assert!(health.warnings.iter().any(is_own), "{health:?}");
    assert!(health.conditions.contains(&Condition::Clock));
    fleet.pass().await;
    // An instance follows the store's time only after two successive answers that agree.
    fleet.pass().await;

    // Requests from now on are in the current window of all dashboards.
    wrong.requests(48).await;
    fleet.right.requests(24).await;
    fleet.assert_shown(72).await;
    let named = ["instance wrong", "this instance", "instance wrong"];
    for (reader, whose) in fleet.readers().into_iter().zip(named) {
        let warnings = clock_warnings(reader).await;
        assert!(warnings.len() == 1, "{warnings:?}");
        assert!(warnings[0].contains(whose), "{warnings:?}");
        assert!(warnings[0].contains(apart), "{warnings:?}");
        let instances = answer(reader, "instances").await;
        for (at, (name, skew)) in [("right", 0), ("wrong", offset)].into_iter().enumerate() {
            let row = &instances["instances"][at];
            assert_eq!(row["instance"], name, "{row}");
            assert_eq!(row["clock_skew_seconds"], skew, "{row}");
        }
    }

    // The clock is set right. The next heartbeat ends the warning, and recorded requests keep their times.
    fleet.wrong_clock.set_wall(fleet.clock.now_seconds());
    fleet.pass().await;
    assert_eq!(wrong.health().store.clock_skew_seconds, Some(0));
    wrong.requests(24).await;
    fleet.pass().await;
    wrong.requests(24).await;
    fleet.assert_shown(120).await;
    for reader in fleet.readers() {
        assert_eq!(clock_warnings(reader).await, [""; 0]);
    }
    let health = wrong.health();
    let served = wrong.oracle.served();
    assert_eq!((health.flush.lost, health.flush.store_resets), (0, 0));
    let stored = Stored::read(&mut fleet.server.connection().await).await;
    match offset < 0 {
        // The first 24 requests were three days in the past. The records by the hour do not reach back so far, but the
        // counter by day has all requests.
        true => assert_eq!((health.fold.skewed, stored.total()), (0, served as i64)),
        false => assert_eq!(health.fold.skewed, 24),
    }
    assert_eq!(fleet.recorded().await, served - 24);
}

#[tokio::test]
async fn a_clock_that_is_wrong_by_hours_is_reported_and_its_requests_are_shown() {
    tokio::join!(
        check_use_of_store_time(2 * HOUR + 720, "2 h 12 min ahead of"),
        check_use_of_store_time(365 * DAY, "365 d 0 h ahead of"),
        check_use_of_store_time(-3 * DAY - 7 * HOUR, "3 d 7 h behind"),
    );
}

#[tokio::test]
async fn a_clock_half_an_hour_ahead_is_reported_and_still_used() {
    let fleet = Fleet::new(1_800).await;
    for _ in 0..4 {
        fleet.wrong.requests(24).await;
        fleet.pass().await;
    }
    let warnings = clock_warnings(fleet.wrong.pulse.query()).await;
    assert!(warnings[0].contains("is 30 min ahead of"), "{warnings:?}");
    fleet.wrong.settle().await;
    let marks = fleet.wrong.pulse.query().ask(&MarksQuery::default()).await;
    let as_of = marks.unwrap().as_of;
    assert!(as_of - fleet.clock.now_seconds() > 1_700);
    // Heartbeats of this instance carry the store's time, so others list the instance while it lives.
    let instances = answer(fleet.dashboard.query(), "instances").await;
    let seen = instances["instances"][1]["last_seen"].as_i64().unwrap();
    assert!((seen - fleet.clock.now_seconds()).abs() < 5, "{seen}");
}

#[tokio::test]
async fn a_clock_that_is_set_again_and_again_loses_no_request_and_counts_none_twice() {
    let mut rng = fastrand::Rng::with_seed(seed());
    let fleet = Fleet::new(0).await;
    for _ in 0..12 {
        let hours = [0, 0, 2, 3, -2, -3, -30][rng.usize(..7)];
        let time = fleet.clock.now_seconds() + hours * HOUR;
        fleet.wrong_clock.set_wall(time);
        for _ in 0..rng.usize(1..5) {
            fleet.wrong.requests(rng.usize(1..40)).await;
            if rng.bool() {
                fleet.wrong.settle().await;
            }
            fleet.pass().await;
        }
    }
    for service in [&fleet.right, &fleet.wrong] {
        service.settle().await;
    }
    let health = fleet.right.health();
    let served = fleet.wrong.oracle.served();
    assert_eq!(fleet.recorded().await + health.fold.skewed, served);
    assert_eq!(fleet.wrong.health().recording.recorded, served);
    assert_eq!(fleet.wrong.health().flush.lost, 0);
}
