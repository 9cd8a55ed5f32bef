//! Heartbeats: the answers in memory and in Redis, and the cost and the keys of heartbeats in Redis.

use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Clock, Pulse};
use tower_pulse_core::store::{Fleet, Heartbeat};

use crate::rig::reads;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::stores::fixture::{Fixture, NOW, calls};

/// Commands that do not count: those of the test itself, and of a new connection.
const OTHERS: [&str; 6] = ["info", "client", "ping", "hello", "config", "acl"];

#[tokio::test]
async fn an_idle_instance_sends_few_commands_in_a_minute() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = Pulse::builder().clock(clock).app_version("1.0");
    let (pulse, tasks) = builder.redis(server.url()).build_with_tasks().unwrap();
    // A heartbeat names the version only once the version's mark is stored. A minute after a call, the instance asks
    // once whether the store still has the call. These commands come first, so that the test does not count them.
    pulse.simulation().heartbeat().await.unwrap();
    pulse.flush().await.unwrap();
    manual_clock.advance(Duration::from_secs(62));
    pulse.flush().await.unwrap();
    // In a fleet, another instance folds, judges and cleans.
    let own = ["drain", "flush", "heartbeat"];
    for task in tasks.into_iter().filter(|task| own.contains(&task.name())) {
        tokio::spawn(task);
    }
    // Only heartbeats contact the store now. The server counts a command before the task reads the answer, so `second`
    // waits for the answer.
    let second = async || {
        manual_clock.advance(Duration::from_secs(1));
        let contact_age = || pulse.health().store.contact_age_seconds;
        let is_answered = async || contact_age().is_some_and(|age| age < 1.0);
        until("a heartbeat is answered", is_answered).await;
    };
    for _ in 0..2 {
        second().await;
    }
    let () = server.run("CONFIG RESETSTAT").await;
    for _ in 0..60 {
        second().await;
    }
    let mut calls = calls(&server).await;
    calls.retain(|name, _| !OTHERS.contains(&name.split('|').next().unwrap()));
    for name in "hset zrangebyscore hmget xlen getrange zcount time".split(' ') {
        assert!(calls[name] >= 60, "{name}: {calls:?}");
    }
    let total: u64 = calls.values().sum();
    // A heartbeat with a version takes nine commands. Every fourth heartbeat takes three more, to list problems.
    assert!(total <= 60 * 10, "{total}: {calls:?}");
}

#[tokio::test]
async fn the_hash_of_an_instance_always_has_a_time_to_live() {
    let fixture = Fixture::redis().await;
    for at in NOW..NOW + 3 {
        let beat = reads::heartbeat("a", at);
        fixture.store.upkeep().heartbeat(&beat).await.unwrap();
        let left: i64 = fixture.run("TTL pulse:pulse:instance:a").await;
        assert!((60..=90).contains(&left), "{left}");
        // Another program deletes the hash.
        let () = fixture.run("DEL pulse:pulse:instance:a").await;
    }
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

in_both!(the_answer_to_a_heartbeat_has_the_fleet);
