//! The cost of heartbeats for the server, and their keys.

use std::time::Duration;

use tower_pulse::{Clock, Pulse};

use crate::rig::reads;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::stores::fixture::{Fixture, NOW, calls};

/// The commands of the tests themselves, and the commands of a new connection.
const OTHERS: [&str; 6] = ["info", "client", "ping", "hello", "config", "acl"];

#[tokio::test]
async fn an_idle_instance_sends_few_commands_in_a_minute() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = Pulse::builder().clock(clock).app_version("1.0");
    let (pulse, tasks) = builder.redis(server.url()).build_with_tasks().unwrap();
    // A heartbeat names the version only once the mark of the version is stored. A minute after a call, the instance
    // asks once whether the store still has the call. Both happen here, before the commands are counted.
    pulse.simulation().heartbeat().await.unwrap();
    pulse.flush().await.unwrap();
    manual_clock.advance(Duration::from_secs(62));
    pulse.flush().await.unwrap();
    // Another instance of the fleet folds, judges and cleans.
    let own = ["drain", "flush", "heartbeat"];
    for task in tasks.into_iter().filter(|task| own.contains(&task.name())) {
        tokio::spawn(task);
    }
    // Only heartbeats contact the store now. `second` waits until the task notes the contact: from there, the task
    // begins to sleep without an await in between. The server's counts rise before the task has read its answer.
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
        assert!(calls[name] >= 60, "{name}: {calls:?}");
    }
    let total: u64 = calls.values().sum();
    // A heartbeat with a version takes nine commands. Each fourth heartbeat takes three more, which list problems.
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
