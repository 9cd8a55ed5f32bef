//! What nobody visits any more is forgotten, through a whole `Pulse` whose clock is moved by hand,
//! with either store.

use std::time::Duration;

use tower_pulse::store::PassRecord;
use tower_pulse::{Clock, ManualClock, Pulse};

use crate::bed::NOW;
use crate::hand::{ask, keys, known};
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

struct Fixture {
    pulse: Pulse,
    clock: Clock,
    hand: ManualClock,
    server: Option<RedisServer>,
}

impl Fixture {
    fn new(server: Option<RedisServer>) -> Self {
        let (clock, hand) = Clock::manual(NOW);
        let mut builder = Pulse::builder().clock(clock.clone());
        if let Some(server) = &server {
            builder = builder.redis(server.url());
        }
        // Flushed by hand.
        let builder = builder.flush_interval(Duration::from_secs(60));
        Self {
            pulse: builder.build().unwrap(),
            clock,
            hand,
            server,
        }
    }

    /// Runs a timer of so many milliseconds in each of the contexts, counts, and flushes.
    async fn visit(&self, contexts: &[&str]) {
        for context in contexts {
            let timer = self.pulse.timer(context);
            self.hand.advance(Duration::from_millis(20));
            timer.stop();
            self.pulse.counter(&format!("sold:{context}")).add(1);
        }
        self.pulse.flush().await.unwrap();
    }

    /// Lets so much time pass, and then the next pass come.
    async fn pass_after(&self, seconds: u64) -> PassRecord {
        self.hand.advance(Duration::from_secs(seconds));
        let since = self.clock.now_seconds();
        let mut last = None;
        until("a pass is done", async || {
            self.hand.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(5)).await;
            last = self.pulse.store().last_pass().await.unwrap();
            last.as_ref().is_some_and(|last| last.at >= since)
        })
        .await;
        last.unwrap()
    }

    async fn ranked(&self) -> Vec<String> {
        let slowest = self.pulse.store().slowest().await.unwrap();
        slowest.into_iter().map(|(name, _)| name).collect()
    }

    async fn contexts(&self) -> Vec<String> {
        let now = self.clock.now_seconds();
        let snapshot = self.pulse.store().snapshot(now).await.unwrap();
        snapshot.contexts.into_iter().map(|c| c.context).collect()
    }

    async fn samples(&self, counter: &str, precision: u32) -> usize {
        let counter = self.pulse.store().counter(counter, precision).await;
        counter.unwrap().len()
    }
}

async fn idle_counters_vanish(bed: &Fixture) {
    bed.visit(&["a", "b"]).await;
    bed.pass_after(60).await;
    assert_eq!(bed.samples("sold:a", 1).await, 1);
    bed.pass_after(300).await;
    for counter in ["sold:a", "hits:a", "micros:b"] {
        assert_eq!(bed.samples(counter, 1).await, 0, "{counter}");
        assert_eq!(bed.samples(counter, 60).await, 1, "{counter}");
    }
    bed.pass_after(3 * HOUR).await;
    assert_eq!(bed.samples("sold:a", 60).await, 0);
    // Even those of days go at last, in a pass in which they are due. Nobody forgets the user's
    // counters sooner, as they are no contexts.
    for (days, left) in [(100, 1), (40, 0)] {
        bed.pass_after(days * DAY).await;
        let midnight = (bed.clock.now_seconds() / 86_400 + 1) * 86_400;
        bed.hand.set_wall(midnight - 50);
        let last = bed.pass_after(0).await;
        assert_eq!(last.number, midnight / 60);
        assert_eq!(bed.samples("sold:a", 3_600).await, 0);
        assert_eq!(bed.samples("sold:a", 86_400).await, left);
    }
}

async fn contexts_are_unranked_and_forgotten(bed: &Fixture) {
    bed.visit(&["old", "new"]).await;
    bed.hand.advance(Duration::from_secs(HOUR));
    // Another hour, so that there is a last one too.
    bed.visit(&["old", "new"]).await;
    if let Some(server) = &bed.server {
        let conn = &mut server.connection().await;
        // Two sets and their hours, two counters of seven precisions; the records are below no name.
        assert_eq!(keys(conn, "*:old*").await.len(), 4 + 14 + 7);
        let _: i64 = ask(conn, "ZADD", ("pulse:pulse:instances", NOW, "dead")).await;
    }
    let now = bed.clock.now_seconds();
    for tier in [60, 3_600] {
        let records = bed.pulse.store().records("old", tier, now).await.unwrap();
        assert!(!records.is_empty(), "{tier}");
    }
    let last = bed.pass_after(60).await;
    assert_eq!((last.cleaned.ranks, last.cleaned.contexts), (0, 0));
    bed.pass_after(DAY / 2).await;
    bed.visit(&["new"]).await;
    assert_eq!(bed.ranked().await.len(), 2);
    bed.pass_after(DAY / 2).await;
    assert_eq!(bed.ranked().await, ["new"]);
    assert_eq!(bed.contexts().await, ["new", "old"], "known, not ranked");
    // Visited again, it is ranked again.
    bed.visit(&["old"]).await;
    assert_eq!(bed.ranked().await.len(), 2);

    for _ in 0..6 {
        bed.pass_after(DAY).await;
        bed.visit(&["new"]).await;
    }
    assert_eq!(bed.contexts().await, ["new", "old"]);
    bed.pass_after(DAY).await;
    assert_eq!(bed.contexts().await, ["new"]);
    let now = bed.clock.now_seconds();
    let store = bed.pulse.store();
    assert_eq!(store.context("old", now).await.unwrap(), None);
    for precision in [1, 60, 86_400] {
        assert_eq!(bed.samples("hits:old", precision).await, 0);
    }
    assert_eq!(store.records("old", 3_600, now).await.unwrap(), []);
    assert_eq!(bed.samples("hits:new", 86_400).await, 8);
    if let Some(server) = &bed.server {
        let conn = &mut server.connection().await;
        // What is left is the user's own counter, whose days are kept for four months.
        let left = keys(conn, "*:old*").await;
        let own = left
            .iter()
            .all(|key| String::from_utf8_lossy(key).contains("sold:old"));
        assert!(own, "{left:?}");
        let members = known(conn).await;
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

with_either_store!(idle_counters_vanish, contexts_are_unranked_and_forgotten);
