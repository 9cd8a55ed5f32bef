//! A whole `Pulse` with a manual clock forgets idle counters and contexts, with either store.

use std::time::Duration;

use tower_pulse::{CleaningHealth, Clock, ManualClock, Pulse};

use crate::fixture::NOW;
use crate::raw_redis::{ask, keys, known_members};
use crate::rig::reads::{StoreOf, StoreReads};
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

struct Fixture {
    pulse: Pulse,
    clock: Clock,
    manual_clock: ManualClock,
    server: Option<RedisServer>,
}

impl Fixture {
    fn new(server: Option<RedisServer>) -> Self {
        let (clock, manual_clock) = Clock::manual(NOW);
        let mut builder = Pulse::builder().clock(clock.clone());
        if let Some(server) = &server {
            builder = builder.redis(server.url());
        }
        // The tests flush themselves.
        let builder = builder.flush_interval(Duration::from_secs(60));
        Self {
            pulse: builder.build().unwrap(),
            clock,
            manual_clock,
            server,
        }
    }

    /// Runs a timer in each of the contexts, adds to a counter for each, and flushes.
    async fn visit(&self, contexts: &[&str]) {
        for context in contexts {
            let timer = self.pulse.timer(context);
            self.manual_clock.advance(Duration::from_millis(20));
            timer.stop();
            self.pulse.counter(&format!("sold:{context}")).add(1);
        }
        self.pulse.flush().await.unwrap();
    }

    /// Advances the clock by `seconds`, and waits until the next pass is complete.
    async fn pass_after(&self, seconds: u64) -> CleaningHealth {
        self.manual_clock.advance(Duration::from_secs(seconds));
        let since = self.clock.now_seconds();
        until("a pass is done", async || {
            self.manual_clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.pulse.health().cleaning.last_pass_at >= Some(since)
        })
        .await;
        self.pulse.health().cleaning
    }

    async fn ranked(&self) -> Vec<String> {
        let slowest = self.pulse.backend().slowest_means().await.unwrap();
        slowest.into_iter().map(|(name, _)| name).collect()
    }

    async fn contexts(&self) -> Vec<String> {
        let now = self.clock.now_seconds();
        let snapshot = self.pulse.backend().snapshot(now).await.unwrap();
        snapshot.contexts.into_iter().map(|c| c.context).collect()
    }

    async fn slice_count(&self, counter: &str, precision: u32) -> usize {
        let counter = self.pulse.backend().counter(counter, precision).await;
        counter.unwrap().len()
    }
}

async fn idle_counters_are_removed(fixture: &Fixture) {
    fixture.visit(&["a", "b"]).await;
    fixture.pass_after(60).await;
    assert_eq!(fixture.slice_count("sold:a", 1).await, 1);
    fixture.pass_after(300).await;
    for counter in ["sold:a", "hits:a", "micros:b"] {
        assert_eq!(fixture.slice_count(counter, 1).await, 0, "{counter}");
        assert_eq!(fixture.slice_count(counter, 60).await, 1, "{counter}");
    }
    fixture.pass_after(3 * HOUR).await;
    assert_eq!(fixture.slice_count("sold:a", 60).await, 0);
    // Slices of days are removed at last, in a pass in which they are due. Counters of the user are not removed
    // with a context.
    for (days, left) in [(100, 1), (40, 0)] {
        fixture.pass_after(days * DAY).await;
        let midnight = (fixture.clock.now_seconds() / 86_400 + 1) * 86_400;
        fixture.manual_clock.set_wall(midnight - 50);
        let last = fixture.pass_after(0).await;
        assert_eq!(last.last_pass_at.map(|at| at / 60), Some(midnight / 60));
        assert_eq!(fixture.slice_count("sold:a", 3_600).await, 0);
        assert_eq!(fixture.slice_count("sold:a", 86_400).await, left);
    }
}

async fn contexts_are_unranked_and_forgotten(fixture: &Fixture) {
    fixture.visit(&["old", "new"]).await;
    fixture.manual_clock.advance(Duration::from_secs(HOUR));
    // Samples in another hour, so that there are statistics of a last hour too.
    fixture.visit(&["old", "new"]).await;
    if let Some(server) = &fixture.server {
        let conn = &mut server.connection().await;
        // Two sets and their hours, two counters of seven precisions, and the user's counter. Keys of records do
        // not contain the name.
        assert_eq!(keys(conn, "*:old*").await.len(), 4 + 14 + 7);
        let _: i64 = ask(conn, "ZADD", ("pulse:pulse:instances", NOW, "dead")).await;
    }
    let now = fixture.clock.now_seconds();
    for tier in [60, 3_600] {
        let records = fixture
            .pulse
            .backend()
            .records_of("old", tier, now)
            .await
            .unwrap();
        assert!(!records.is_empty(), "{tier}");
    }
    let last = fixture.pass_after(60).await;
    assert_eq!(last.contexts, 0);
    fixture.pass_after(DAY / 2).await;
    fixture.visit(&["new"]).await;
    assert_eq!(fixture.ranked().await.len(), 2);
    fixture.pass_after(DAY / 2).await;
    assert_eq!(fixture.ranked().await, ["new"]);
    assert_eq!(
        fixture.contexts().await,
        ["new", "old"],
        "not forgotten, but not ranked"
    );
    // A context with new samples is ranked again.
    fixture.visit(&["old"]).await;
    assert_eq!(fixture.ranked().await.len(), 2);

    for _ in 0..6 {
        fixture.pass_after(DAY).await;
        fixture.visit(&["new"]).await;
    }
    assert_eq!(fixture.contexts().await, ["new", "old"]);
    fixture.pass_after(DAY).await;
    assert_eq!(fixture.contexts().await, ["new"]);
    let now = fixture.clock.now_seconds();
    let store = fixture.pulse.backend();
    assert_eq!(store.context("old", now).await.unwrap(), None);
    for precision in [1, 60, 86_400] {
        assert_eq!(fixture.slice_count("hits:old", precision).await, 0);
    }
    assert_eq!(store.records_of("old", 3_600, now).await.unwrap(), []);
    assert_eq!(fixture.slice_count("hits:new", 86_400).await, 8);
    if let Some(server) = &fixture.server {
        let conn = &mut server.connection().await;
        // The user's own counter stays, as its slices of days are retained for four months.
        let left = keys(conn, "*:old*").await;
        let own = left
            .iter()
            .all(|key| String::from_utf8_lossy(key).contains("sold:old"));
        assert!(own, "{left:?}");
        let members = known_members(conn).await;
        let members = members.iter().map(|m| String::from_utf8_lossy(m));
        let old: Vec<_> = members.filter(|m| m.ends_with(":old")).collect();
        assert!(old.iter().all(|m| m.contains("sold:old")), "{old:?}");
        for index in ["contexts", "timers"] {
            let key = format!("pulse:pulse:{index}");
            let score: Option<f64> = ask(conn, "ZSCORE", (key, "old")).await;
            assert_eq!(score, None);
        }
        let dead: Option<f64> = ask(conn, "ZSCORE", ("pulse:pulse:instances", "dead")).await;
        assert_eq!(dead, None);
    }
}

macro_rules! with_either_store {
    ($($test:ident),*) => {
        mod memory {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&super::Fixture::new(None)).await;
            })*
        }
        mod redis {
            $(#[tokio::test]
            async fn $test() {
                let server = crate::rig::server::RedisServer::start().await;
                super::$test(&super::Fixture::new(Some(server))).await;
            })*
        }
    };
}

with_either_store!(
    idle_counters_are_removed,
    contexts_are_unranked_and_forgotten
);
