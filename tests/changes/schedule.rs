//! The background task that judges each minute.

use std::time::Duration;

use http::StatusCode;
use tower_pulse::{Clock, Pulse};

use crate::fleet::{MINUTE, START};
use crate::rig::wait::{let_tasks_run, until};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_minute_is_judged_fifteen_seconds_after_its_end() {
    let (clock, time) = Clock::manual(START + 20);
    let pulse = Pulse::builder().clock(clock.clone()).build().unwrap();
    let judged = || pulse.health().changes.judged_until;
    let_tasks_run().await;
    for minute in 1..=4 {
        let end = START + minute * MINUTE;
        let before = judged();
        assert_ne!(before, Some(end));
        while clock.now_seconds() < end + 14 {
            pulse.record("GET /", Duration::from_millis(4), StatusCode::OK);
            time.advance(SECOND);
            let_tasks_run().await;
            assert_eq!(judged(), before, "at {} s", clock.now_seconds() - end);
        }
        // Instances on one store in memory look up to two seconds after each other.
        for _ in 0..4 {
            time.advance(SECOND);
            let_tasks_run().await;
        }
        until("the minute is judged", async || judged() == Some(end)).await;
    }
    pulse.shutdown().await.unwrap();
    let last = judged();
    time.advance(10 * 60 * SECOND);
    let_tasks_run().await;
    assert_eq!(judged(), last, "nobody judges after a shutdown");
}
