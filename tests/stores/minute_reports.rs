//! What each instance, and each version of the application, did in each minute, in either store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Clock, ManualClock, Pulse};
use tower_pulse_core::store::Store;
use tower_pulse_core::store::{Fleet, Heartbeat, InstanceReports};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::minute_report::{
    InstanceMinute, MAX_REPORTED, MinuteReport, REPORTED_MINUTES,
};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::SKEW_ALLOWED;
use tower_pulse_model::slices::Merge;

use crate::fixture::{Fixture, MS, NOW, aggregate_of};
use crate::rig::reads;
use crate::rig::seed::seed;
use crate::rig::server::issue;

/// The version that only others run.
const OTHER: &str = "0.9";
const CONTEXTS: u32 = 40;
/// Minutes that are recorded.
const MINUTES: i64 = 4;

/// Contexts with their sums.
type Contexts = BTreeMap<RecordId, Aggregate>;

fn id(context: u32) -> RecordId {
    RecordId::new(Kind::Http, &format!("GET /{context}"))
}

fn add(contexts: &mut Contexts, id: RecordId, aggregate: &Aggregate) {
    contexts.entry(id).or_default().merge(aggregate);
}

fn busiest(contexts: &Contexts, count: usize) -> Vec<(RecordId, Aggregate)> {
    let mut contexts: Vec<_> = contexts.clone().into_iter().collect();
    contexts.sort_by_key(|(id, sums)| (std::cmp::Reverse(sums.times.count), *id));
    contexts.truncate(count);
    contexts
}

/// A `Pulse`, and a plain model of what it did.
struct Instance {
    pulse: Pulse,
    version: Option<&'static str>,
    minutes: BTreeMap<i64, Contexts>,
}

impl Instance {
    /// An instance that knows the fleet, and folds. Nobody but the test drains and flushes.
    async fn start(store: &Arc<dyn Store>, clock: &Clock, version: Option<&'static str>) -> Self {
        let builder = Pulse::builder().store(store.clone()).clock(clock.clone());
        let builder = match version {
            Some(version) => builder.app_version(version),
            None => builder,
        };
        let (pulse, tasks) = builder.build_with_tasks().unwrap();
        let mut heartbeat = None;
        for task in tasks {
            match task.name() {
                "heartbeat" => heartbeat = Some(tokio::spawn(task)),
                "fold" => drop(tokio::spawn(task)),
                _ => {}
            }
        }
        while pulse.health().store.contact_age_seconds.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        heartbeat.unwrap().abort();
        Self {
            pulse,
            version,
            minutes: BTreeMap::new(),
        }
    }

    fn name(&self) -> String {
        self.pulse.health().instance
    }

    fn record(&mut self, now: i64, rng: &mut fastrand::Rng) {
        let context = rng.u32(..CONTEXTS).min(rng.u32(..CONTEXTS));
        let outcome = Outcome::ALL[rng.usize(1..Outcome::ALL.len())];
        let nanos = MS << rng.u32(..12);
        let duration = Duration::from_nanos(nanos);
        self.pulse
            .record(&format!("GET /{context}"), duration, outcome);
        let minute = self.minutes.entry(REPORTED_MINUTES.slice(now)).or_default();
        add(minute, id(context), &aggregate_of(&[nanos], outcome));
    }
}

fn turn(instances: &[Instance], manual_clock: &ManualClock) {
    manual_clock.advance(Duration::from_secs(1));
    instances
        .iter()
        .for_each(|one| one.pulse.simulation().drain());
}

fn heartbeat(instance: &str, at: i64, version: Option<&str>) -> Heartbeat {
    Heartbeat {
        version: version.map(Arc::from),
        ..reads::heartbeat(instance, at)
    }
}

async fn each_instance_and_each_version_is_what_it_did(fixture: Fixture) {
    let mut rng = fastrand::Rng::with_seed(seed());
    let store = &fixture.store;
    for (instance, version) in [("x", "1.0"), ("y", "2.0"), ("z", OTHER)] {
        let heartbeat = heartbeat(instance, NOW, Some(version));
        store.upkeep().heartbeat(&heartbeat).await.unwrap();
    }
    let mut instances = Vec::new();
    for version in [Some("1.0"), Some("2.0"), Some("2.0"), None] {
        instances.push(Instance::start(store, &fixture.clock, version).await);
    }
    let first = REPORTED_MINUTES.slice(NOW);
    for second in 0..60 * MINUTES {
        let now = fixture.clock.now_seconds();
        for _ in 0..rng.u32(..40) {
            let at = rng.usize(..instances.len());
            instances[at].record(now, &mut rng);
        }
        turn(&instances, &fixture.manual_clock);
        if rng.u32(..30) == 0 {
            let one = &instances[rng.usize(..instances.len())];
            one.pulse.flush().await.unwrap();
        }
        assert!(second < 59 || instances.iter().all(|one| !one.minutes.is_empty()));
    }
    // The last minute is open. One of them ends in it.
    instances[0].record(fixture.clock.now_seconds(), &mut rng);
    instances[1].record(fixture.clock.now_seconds(), &mut rng);
    instances[0].pulse.shutdown().await.unwrap();
    for one in &instances[1..] {
        one.pulse.flush().await.unwrap();
    }

    let minutes: Vec<i64> = (-1..=MINUTES + 1).map(|n| first + 60 * n).collect();
    let open = first + 60 * MINUTES;
    let mut versions: BTreeMap<(i64, &str), Contexts> = BTreeMap::new();
    let mut expected: Vec<InstanceReports> = Vec::new();
    for minute in &minutes {
        let mut in_minute = Vec::new();
        for (at, one) in instances.iter().enumerate() {
            let Some(contexts) = one.minutes.get(minute) else {
                continue;
            };
            if *minute == open && at > 0 {
                continue;
            }
            let reported = InstanceMinute {
                version: one.version.map(Arc::from),
                // It is not stored.
                max_contexts: 0,
                contexts: busiest(contexts, MAX_REPORTED),
                machine: None,
            };
            in_minute.push((one.name().into(), reported));
            if let Some(version) = one.version {
                let sums = versions.entry((*minute, version)).or_default();
                contexts.iter().for_each(|(id, one)| add(sums, *id, one));
            }
        }
        in_minute.sort_by(|(a, _): &(Arc<str>, _), (b, _)| a.cmp(b));
        expected.push(in_minute);
    }
    assert!(
        versions
            .values()
            .any(|contexts| contexts.len() > MAX_REPORTED)
    );
    let reports = store.query().minute_reports(&minutes).await.unwrap();
    assert_eq!(reports, expected);
    let records = store.query().version_records(&minutes).await.unwrap();
    let records = minutes.iter().zip(records).flat_map(|(minute, of)| {
        (of.into_iter()).map(|(version, records)| (*minute, version.to_string(), records))
    });
    let records: Vec<_> = records.collect();
    let expected: Vec<_> = versions
        .into_iter()
        .map(|((minute, version), contexts)| {
            (minute, version.to_owned(), contexts.into_iter().collect())
        })
        .collect();
    assert_eq!(records, expected);
}

/// A report with so many requests in each of some contexts.
fn report(
    minute: i64,
    instance: &str,
    version: Option<&str>,
    contexts: &[(u32, usize)],
) -> MinuteReport {
    let context = |(context, count): &(u32, usize)| {
        let nanos = vec![MS; *count];
        (id(*context), aggregate_of(&nanos, Outcome::ClientError))
    };
    MinuteReport {
        minute,
        instance: instance.into(),
        version: version.map(Arc::from),
        max_contexts: 2,
        is_side_by_side: true,
        contexts: contexts.iter().map(context).collect(),
        machine: None,
    }
}

fn counts(records: &[(RecordId, Aggregate)]) -> Vec<(RecordId, u64)> {
    let records = records.iter();
    records.map(|(id, sums)| (*id, sums.times.count)).collect()
}

async fn parts_of_reports_are_added_up(mut fixture: Fixture) {
    let minute = REPORTED_MINUTES.slice(NOW);
    for reports in [
        vec![report(minute, "b", Some("2"), &[(1, 5), (2, 4)])],
        vec![
            report(minute, "a", Some("1"), &[(1, 3)]),
            report(minute, "c", None, &[(1, 9)]),
        ],
        vec![report(minute, "b", Some("2"), &[(3, 9), (2, 3)])],
        vec![report(minute, "d", Some("2"), &[(1, 1)])],
        vec![report(minute - 60, "a", Some("1"), &[(1, 1)])],
    ] {
        let mut batch = Batch::new(fixture.precisions.clone());
        reports.into_iter().for_each(|one| batch.add_report(one));
        fixture.merge_clean(batch).await;
    }
    let minutes = [minute - 60, minute, minute + 60];
    let read = fixture
        .store
        .query()
        .minute_reports(&minutes)
        .await
        .unwrap();
    let read: Vec<Vec<_>> = (read.iter())
        .map(|minute| {
            let minute = minute.iter();
            minute
                .map(|(name, of)| (&**name, of.version.as_deref(), counts(&of.contexts)))
                .collect()
        })
        .collect();
    let expected = [
        vec![("a", Some("1"), vec![(id(1), 1)])],
        vec![
            ("a", Some("1"), vec![(id(1), 3)]),
            ("b", Some("2"), vec![(id(3), 9), (id(2), 7)]),
            ("c", None, vec![(id(1), 9)]),
            ("d", Some("2"), vec![(id(1), 1)]),
        ],
        vec![],
    ];
    assert_eq!(read, expected);
    let read = fixture
        .store
        .query()
        .version_records(&minutes)
        .await
        .unwrap();
    let read = minutes.iter().zip(&read).flat_map(|(minute, of)| {
        (of.iter()).map(|(version, records)| (*minute, &**version, counts(records)))
    });
    let read: Vec<_> = read.collect();
    let mut second = vec![(id(1), 6), (id(2), 7), (id(3), 9)];
    second.sort_unstable();
    let expected = [
        (minute - 60, "1", vec![(id(1), 1)]),
        (minute, "1", vec![(id(1), 3)]),
        (minute, "2", second),
    ];
    assert_eq!(read, expected);
}

async fn reports_that_are_not_retained_are_dropped(mut fixture: Fixture) {
    let newest = REPORTED_MINUTES.slice(NOW);
    let oldest = REPORTED_MINUTES.slice(REPORTED_MINUTES.cutoff(NOW)) + 60;
    let minutes = [
        oldest - 60,
        oldest,
        newest,
        newest + SKEW_ALLOWED,
        newest + SKEW_ALLOWED + 60,
    ];
    let mut batch = Batch::new(fixture.precisions.clone());
    for minute in minutes {
        batch.add_report(report(minute, "a", Some("1"), &[(1, 1)]));
    }
    fixture.merge_clean(batch).await;
    let stored = async |fixture: &Fixture| -> Vec<bool> {
        let reports = fixture
            .store
            .query()
            .minute_reports(&minutes)
            .await
            .unwrap();
        let versions = fixture
            .store
            .query()
            .version_records(&minutes)
            .await
            .unwrap();
        let stored = reports.iter().map(|minute| !minute.is_empty());
        let stored: Vec<_> = stored.collect();
        let of_versions = versions.iter().map(|minute| !minute.is_empty());
        assert!(of_versions.eq(stored.iter().copied()));
        stored
    };
    assert_eq!(stored(&fixture).await, [false, true, true, true, false]);
}

/// In memory they expire some minutes after their retention, by the clock of the store.
#[tokio::test]
async fn reports_expire() {
    for is_cleaned in [false, true] {
        let mut fixture = Fixture::memory();
        let minute = REPORTED_MINUTES.slice(NOW);
        let mut batch = Batch::new(fixture.precisions.clone());
        batch.add_report(report(minute, "a", Some("1"), &[(1, 1)]));
        fixture.merge_clean(batch).await;
        fixture.advance(REPORTED_MINUTES.key_ttl() + 60);
        match is_cleaned {
            true => drop(fixture.store.upkeep().clean(&fixture.pass()).await.unwrap()),
            false => drop(fixture.hit("GET /", fixture.clock.now_seconds(), MS).await),
        }
        let read = fixture
            .store
            .query()
            .minute_reports(&[minute])
            .await
            .unwrap();
        assert_eq!(read, [vec![]]);
    }
}

#[tokio::test]
async fn keys_of_reports_expire_and_those_of_another_type_read_as_empty() {
    let mut fixture = Fixture::redis().await;
    let minute = REPORTED_MINUTES.slice(NOW);
    let keys = ["by_instance1", "by_version1"].map(|key| format!("pulse:pulse:{key}:{minute}"));
    let connection = &mut fixture.server().connection().await;
    let mut batch = Batch::new(fixture.precisions.clone());
    batch.add_report(report(minute, "a", Some("1"), &[(1, 1)]));
    fixture.merge_clean(batch.clone()).await;
    for key in &keys {
        let ttl = redis::cmd("TTL").arg(key).query_async(connection).await;
        let ttl: i64 = ttl.unwrap();
        assert!((8_390..=8_400).contains(&ttl), "{key}: {ttl}");
        let field = &b"12345678\xff"[..];
        let () = issue(connection, "HSET", (key, field, "garbage")).await;
    }
    let read = fixture
        .store
        .query()
        .minute_reports(&[minute])
        .await
        .unwrap();
    assert_eq!(read[0].len(), 1);
    let read = fixture
        .store
        .query()
        .version_records(&[minute])
        .await
        .unwrap();
    assert_eq!(read[0].len(), 1);
    for key in &keys {
        let () = issue(connection, "SET", (key, "x")).await;
    }
    let read = fixture
        .store
        .query()
        .minute_reports(&[minute])
        .await
        .unwrap();
    assert_eq!(read, [vec![]]);
    assert_eq!(
        fixture
            .store
            .query()
            .version_records(&[minute])
            .await
            .unwrap(),
        [vec![]]
    );
    let report = fixture.merge(batch).await;
    let quarantined = report.quarantined.iter().map(|problem| &*problem.key);
    assert!(quarantined.eq(keys.iter().map(String::as_str)));
}

async fn a_heartbeat_tells_the_fleet(fixture: Fixture) {
    let beat = async |instance: &str, at: i64, version: Option<&str>| -> Fleet {
        let heartbeat = heartbeat(instance, at, version);
        let (fleet, status) = fixture.store.upkeep().heartbeat(&heartbeat).await.unwrap();
        assert_eq!(status.instances, fleet.instances);
        fleet
    };
    let fleet = |instances, versions: &[&str]| Fleet {
        instances,
        versions: versions.iter().map(|one| Arc::from(*one)).collect(),
    };
    assert_eq!(beat("a", NOW, None).await, fleet(1, &[]));
    assert_eq!(beat("b", NOW, Some("2")).await, fleet(2, &["2"]));
    assert_eq!(beat("c", NOW + 1, Some("10")).await, fleet(3, &["10", "2"]));
    // Its clock is behind. The version is as old as the newest heartbeat of any instance that runs it.
    assert_eq!(beat("d", NOW - 9, Some("2")).await, fleet(4, &["10", "2"]));
    assert_eq!(beat("a", NOW + 60, None).await, fleet(3, &["10", "2"]));
    assert_eq!(beat("a", NOW + 61, None).await, fleet(2, &["10"]));
    fixture.store.upkeep().deregister("c").await.unwrap();
    assert_eq!(beat("a", NOW + 61, None).await, fleet(1, &["10"]));
    assert_eq!(beat("a", NOW + 62, Some("ü")).await, fleet(1, &["ü"]));
}

#[tokio::test]
async fn redis_remembers_a_hundred_versions() {
    let fixture = Fixture::redis().await;
    for version in 0..105 {
        let heartbeat = heartbeat("a", NOW + version, Some(&version.to_string()));
        fixture.store.upkeep().heartbeat(&heartbeat).await.unwrap();
    }
    let connection = &mut fixture.server().connection().await;
    let versions: Vec<i64> = issue(connection, "ZRANGE", ("pulse:pulse:versions", 0, -1)).await;
    assert!(versions.into_iter().eq(5..105));
}

in_both!(
    reports_that_are_not_retained_are_dropped,
    each_instance_and_each_version_is_what_it_did,
    parts_of_reports_are_added_up,
    a_heartbeat_tells_the_fleet
);
