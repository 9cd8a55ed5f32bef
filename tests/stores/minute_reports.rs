//! The reports of each instance and of each version of the application by minute, in each store; and the fleet in the
//! answers to heartbeats.

use std::sync::Arc;

use tower_pulse_core::store::{Fleet, Heartbeat, InstanceReports, VersionRecords};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::minute_report::{MinuteReport, REPORTED_MINUTES};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::SKEW_ALLOWED;

use crate::rig::reads;
use crate::stores::fixture::{Fixture, MS, MergeReport, NOW, aggregate_of};

/// The minute of the present.
const MINUTE: i64 = NOW;

fn id(context: u32) -> RecordId {
    RecordId::new(Kind::Http, &format!("GET /{context}"))
}

/// A report with these numbers of requests by context.
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

async fn send(
    fixture: &mut Fixture,
    reports: impl IntoIterator<Item = MinuteReport>,
) -> MergeReport {
    let mut batch = fixture.batch(&[]);
    let reports = reports.into_iter();
    reports.for_each(|report| batch.add_report(report));
    fixture.merge(batch).await
}

async fn reports(fixture: &Fixture, minutes: &[i64]) -> Vec<InstanceReports> {
    let reports = fixture.store.query().minute_reports(minutes).await;
    reports.unwrap()
}

async fn versions(fixture: &Fixture, minutes: &[i64]) -> Vec<VersionRecords> {
    let records = fixture.store.query().version_records(minutes).await;
    records.unwrap()
}

fn counts(records: &[(RecordId, Aggregate)]) -> Vec<(RecordId, u64)> {
    let records = records.iter();
    records.map(|(id, sums)| (*id, sums.times.count)).collect()
}

async fn parts_of_reports_are_added_up(mut fixture: Fixture) {
    let calls = [
        vec![report(MINUTE, "b", Some("2"), &[(1, 5), (2, 4)])],
        vec![
            report(MINUTE, "a", Some("1"), &[(1, 3)]),
            report(MINUTE, "c", None, &[(1, 9)]),
        ],
        vec![report(MINUTE, "b", Some("2"), &[(3, 9), (2, 3)])],
        vec![report(MINUTE, "d", Some("2"), &[(1, 1)])],
        vec![report(MINUTE - 60, "a", Some("1"), &[(1, 1)])],
    ];
    for reports in calls {
        assert_eq!(send(&mut fixture, reports).await, MergeReport::default());
    }
    let minutes = [MINUTE - 60, MINUTE, MINUTE + 60];
    let read = reports(&fixture, &minutes).await;
    let read = read.iter().map(|minute| {
        let reports = minute.iter();
        let reports = reports.map(|(name, r)| (&**name, r.version.as_deref(), counts(&r.contexts)));
        reports.collect::<Vec<_>>()
    });
    let expected = [
        vec![("a", Some("1"), vec![(id(1), 1)])],
        vec![
            ("a", Some("1"), vec![(id(1), 3)]),
            // A report has at most the two busiest contexts.
            ("b", Some("2"), vec![(id(3), 9), (id(2), 7)]),
            ("c", None, vec![(id(1), 9)]),
            ("d", Some("2"), vec![(id(1), 1)]),
        ],
        vec![],
    ];
    assert_eq!(read.collect::<Vec<_>>(), expected);
    let read = versions(&fixture, &minutes).await;
    let read = minutes.iter().zip(&read).flat_map(|(minute, versions)| {
        let versions = versions.iter();
        versions.map(|(version, records)| (*minute, &**version, counts(records)))
    });
    let mut second = vec![(id(1), 6), (id(2), 7), (id(3), 9)];
    second.sort_unstable();
    let expected = [
        (MINUTE - 60, "1", vec![(id(1), 1)]),
        (MINUTE, "1", vec![(id(1), 3)]),
        (MINUTE, "2", second),
    ];
    assert_eq!(read.collect::<Vec<_>>(), expected);
}

async fn reports_that_are_not_retained_are_dropped(mut fixture: Fixture) {
    let oldest = REPORTED_MINUTES.slice(REPORTED_MINUTES.cutoff(NOW)) + 60;
    let newest = MINUTE + SKEW_ALLOWED;
    let minutes = [oldest - 60, oldest, MINUTE, newest, newest + 60];
    let all = minutes.map(|minute| report(minute, "a", Some("1"), &[(1, 1)]));
    send(&mut fixture, all).await;
    let stored = reports(&fixture, &minutes).await;
    let is_stored: Vec<_> = stored.iter().map(|minute| !minute.is_empty()).collect();
    assert_eq!(is_stored, [false, true, true, true, false]);
    let stored = versions(&fixture, &minutes).await;
    let are_stored = stored.iter().map(|minute| !minute.is_empty());
    assert!(are_stored.eq(is_stored));
}

/// In memory, reports expire some minutes after their retention, by the clock of the store.
#[tokio::test]
async fn reports_expire() {
    for is_cleaned in [false, true] {
        let mut fixture = Fixture::memory();
        send(&mut fixture, [report(MINUTE, "a", Some("1"), &[(1, 1)])]).await;
        fixture.advance(REPORTED_MINUTES.key_ttl() + 60);
        match is_cleaned {
            true => drop(fixture.clean().await),
            false => drop(fixture.hit("GET /", fixture.now(), MS).await),
        }
        assert_eq!(reports(&fixture, &[MINUTE]).await, [vec![]]);
    }
}

#[tokio::test]
async fn keys_of_reports_expire_and_keys_of_another_type_read_as_empty() {
    let mut fixture = Fixture::redis().await;
    let keys = ["by_instance1", "by_version1"].map(|key| format!("pulse:pulse:{key}:{MINUTE}"));
    let sent = report(MINUTE, "a", Some("1"), &[(1, 1)]);
    send(&mut fixture, [sent.clone()]).await;
    for key in &keys {
        let ttl: i64 = fixture.issue("TTL", key).await;
        assert!((8_390..=8_400).contains(&ttl), "{key}: {ttl}");
        let field = &b"12345678\xff"[..];
        let () = fixture.issue("HSET", (key, field, "garbage")).await;
    }
    assert_eq!(reports(&fixture, &[MINUTE]).await[0].len(), 1);
    assert_eq!(versions(&fixture, &[MINUTE]).await[0].len(), 1);
    for key in &keys {
        let () = fixture.issue("SET", (key, "x")).await;
    }
    assert_eq!(reports(&fixture, &[MINUTE]).await, [vec![]]);
    assert_eq!(versions(&fixture, &[MINUTE]).await, [vec![]]);
    let report = send(&mut fixture, [sent]).await;
    let quarantined = report.quarantined.iter().map(|problem| &*problem.key);
    assert!(quarantined.eq(keys.iter().map(String::as_str)));
}

fn heartbeat(instance: &str, at: i64, version: Option<&str>) -> Heartbeat {
    Heartbeat {
        version: version.map(Arc::from),
        ..reads::heartbeat(instance, at)
    }
}

async fn the_answer_to_a_heartbeat_has_the_fleet(fixture: Fixture) {
    let upkeep = fixture.store.upkeep();
    let beat = async |instance: &str, at: i64, version: Option<&str>| -> Fleet {
        let heartbeat = heartbeat(instance, at, version);
        let (fleet, status) = upkeep.heartbeat(&heartbeat).await.unwrap();
        assert_eq!(status.instances, fleet.instances);
        fleet
    };
    let fleet = |instances, versions: &[&str]| Fleet {
        instances,
        versions: versions.iter().map(|name| Arc::from(*name)).collect(),
    };
    assert_eq!(beat("a", NOW, None).await, fleet(1, &[]));
    assert_eq!(beat("b", NOW, Some("2")).await, fleet(2, &["2"]));
    assert_eq!(beat("c", NOW + 1, Some("10")).await, fleet(3, &["10", "2"]));
    // The clock of `d` is behind. For version 2, the newest heartbeat of any instance with this version counts.
    assert_eq!(beat("d", NOW - 9, Some("2")).await, fleet(4, &["10", "2"]));
    assert_eq!(beat("a", NOW + 60, None).await, fleet(3, &["10", "2"]));
    assert_eq!(beat("a", NOW + 61, None).await, fleet(2, &["10"]));
    upkeep.deregister("c").await.unwrap();
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
    let versions: Vec<i64> = fixture.run("ZRANGE pulse:pulse:versions 0 -1").await;
    assert!(versions.into_iter().eq(5..105));
}

in_both!(
    reports_that_are_not_retained_are_dropped,
    parts_of_reports_are_added_up,
    the_answer_to_a_heartbeat_has_the_fleet
);
