//! What heartbeats cost the server, and what they leave there.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::AsyncCommands;
use tower_pulse::{Clock, Pulse};
use tower_pulse_core::store::Heartbeat;

use crate::fixture::{Fixture, NOW};
use crate::rig::reads;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

const HASH: &str = "pulse:pulse:instance:a";

/// Commands that the tests themselves send, and those of a new connection.
const OTHERS: [&str; 6] = ["info", "client", "ping", "hello", "config", "acl"];

/// How often each command has run, those within scripts included.
async fn commands(server: &RedisServer) -> BTreeMap<String, u64> {
    let stats = server.info("commandstats").await.into_iter();
    let calls = stats.filter_map(|(name, figures)| {
        let name = name.strip_prefix("cmdstat_")?.to_owned();
        let calls = figures.strip_prefix("calls=")?.split(',').next()?;
        let is_other = OTHERS
            .iter()
            .any(|other| name.split('|').next() == Some(other));
        (!is_other).then_some((name, calls.parse().unwrap()))
    });
    calls.collect()
}

fn heartbeat(at: i64, version: Option<&str>) -> Heartbeat {
    Heartbeat {
        version: version.map(Into::into),
        ..reads::heartbeat("a", at)
    }
}

#[tokio::test]
async fn the_minute_of_an_idle_instance_takes_few_commands() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = Pulse::builder().clock(clock).app_version("1.0");
    let (pulse, tasks) = builder.redis(server.url()).build_with_tasks().unwrap();
    // The version has its mark, so that each heartbeat tells it. It takes a minute until an instance does not ask any
    // more whether the store still has its newest call.
    pulse.simulation().heartbeat().await.unwrap();
    pulse.flush().await.unwrap();
    manual_clock.advance(Duration::from_secs(62));
    pulse.flush().await.unwrap();
    // Another instance of the fleet folds, judges and cleans.
    let own = ["drain", "flush", "heartbeat"];
    for task in tasks.into_iter().filter(|task| own.contains(&task.name())) {
        tokio::spawn(task);
    }
    // Only heartbeats contact the store now. The task notes the contact, and sleeps for a second of the clock, in one go.
    // What the server has counted says less: the clock could move before the task has read its answer, and sleeps.
    let second = async || {
        manual_clock.advance(Duration::from_secs(1));
        let contact_age = || pulse.health().store.contact_age_seconds;
        let is_answered = async || contact_age().is_some_and(|age| age < 1.0);
        until("a heartbeat is answered", is_answered).await;
    };
    for _ in 0..2 {
        second().await;
    }
    let before = commands(&server).await;
    for _ in 0..60 {
        second().await;
    }
    let mut added = commands(&server).await;
    for (name, calls) in before {
        *added.entry(name).or_default() -= calls;
    }
    let sent_each_second = [
        "hset",
        "zrangebyscore",
        "hmget",
        "xlen",
        "getrange",
        "zcount",
        "time",
    ];
    for name in sent_each_second {
        assert!(added[name] >= 60, "{name}: {added:?}");
    }
    let total: u64 = added.values().sum();
    // A heartbeat with a version takes nine, and each fifth one two more for lists.
    assert!(total <= 60 * 10, "{total}: {added:?}");
}

#[tokio::test]
async fn the_hash_of_an_instance_always_has_a_time_to_live() {
    let fixture = Fixture::redis().await;
    let mut connection = fixture.server().connection().await;
    for at in NOW..NOW + 3 {
        let beat = heartbeat(at, None);
        fixture.store.upkeep().heartbeat(&beat).await.unwrap();
        let left: i64 = connection.ttl(HASH).await.unwrap();
        assert!((60..=90).contains(&left), "{left}");
        // Another program has deleted it.
        let _: i64 = connection.del(HASH).await.unwrap();
    }
}
