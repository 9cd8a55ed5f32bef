//! A whole `Pulse` with a manual clock forgets idle contexts. The stores' suite tests this for each store.

use std::time::Duration;

use tower_pulse::{CleaningHealth, Clock, ManualClock, Pulse};

use crate::cleaning::raw_redis::{ask, keys, known_members};
use crate::rig::reads::{StoreOf, StoreReads};
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::stores::fixture::NOW;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

struct Fixture {
    pulse: Pulse,
    clock: Clock,
    manual_clock: ManualClock,
}

impl Fixture {
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
}

#[tokio::test]
async fn contexts_are_unranked_and_forgotten() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = Pulse::builder().clock(clock.clone()).redis(server.url());
    // Only the test flushes.
    let builder = builder.flush_interval(Duration::from_secs(60));
    let fixture = Fixture {
        pulse: builder.build().unwrap(),
        clock,
        manual_clock,
    };
    fixture.visit(&["old", "new"]).await;
    fixture.manual_clock.advance(Duration::from_secs(HOUR));
    // Samples in a second hour, so that there are statistics of the last hour too.
    fixture.visit(&["old", "new"]).await;
    let conn = &mut server.connection().await;
    // The statistics of two hours and the keys that name these hours, two counters in seven precisions each, and the
    // user's counter in seven. Keys of records do not contain the name.
    assert_eq!(keys(conn, "*:old*").await.len(), 4 + 14 + 7);
    let _: i64 = ask(conn, "ZADD", ("pulse:pulse:instances", NOW, "dead")).await;
    assert_eq!(fixture.pass_after(60).await.contexts, 0);
    fixture.pass_after(DAY / 2).await;
    fixture.visit(&["new"]).await;
    assert_eq!(fixture.ranked().await.len(), 2);
    fixture.pass_after(DAY / 2).await;
    assert_eq!(fixture.ranked().await, ["new"]);
    let contexts = fixture.contexts().await;
    assert_eq!(contexts, ["new", "old"], "not forgotten, but not ranked");
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
    for (counter, precision, slices) in [
        ("hits:old", 1, 0),
        ("hits:old", 60, 0),
        ("hits:old", 86_400, 0),
        ("hits:new", 86_400, 8),
    ] {
        let counter = store.counter(counter, precision).await.unwrap();
        assert_eq!(counter.len(), slices, "{precision}");
    }
    assert_eq!(store.records_of("old", 3_600, now).await.unwrap(), []);
    // The user's own counter stays, as its slices of days are retained for four months.
    let mut left = keys(conn, "*:old*").await;
    let members = known_members(conn).await.into_iter();
    left.extend(members.filter(|member| member.ends_with(b":old")));
    for name in left {
        let name = String::from_utf8_lossy(&name).into_owned();
        assert!(name.contains("sold:old"), "{name}");
    }
    for (index, member) in [
        ("contexts", "old"),
        ("timers", "old"),
        ("instances", "dead"),
    ] {
        let key = format!("pulse:pulse:{index}");
        let score: Option<f64> = ask(conn, "ZSCORE", (key, member)).await;
        assert_eq!(score, None, "{index}");
    }
}
