//! The background task that judges each minute.

use std::time::Duration;

use http::StatusCode;
use tower_pulse::{Clock, Pulse};
use tower_pulse_model::pack::from_hex;
use tower_pulse_model::tier::RolledUp;

use crate::changes::fleet::{Backend, Fleet, MINUTE, START};
use crate::changes::traffic::Traffic;
use crate::rig::fold::JournalKeys;
use crate::rig::seed::fixed_seed;
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
        // The task adds a random delay of up to two seconds.
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
    assert_eq!(judged(), last, "no instance judges after a shutdown");
}

/// The folder has ended, so the other instance folds, judges, and rolls up.
#[tokio::test]
async fn the_last_instance_judges_and_rolls_up_without_traffic() {
    let mut fleet = Fleet::new(Backend::redis().await, 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    for _ in 0..3 {
        fleet.pass_and_judge(&traffic.minute()).await;
    }
    let mut conn = fleet.backend.server().connection().await;
    let keys = JournalKeys::below("pulse:");
    keys.hold_lease(&mut conn).await;
    let (clock, time) = Clock::manual(fleet.now + 20);
    let builder = Pulse::builder().redis(fleet.backend.server().url());
    let builder = builder.redis_response_timeout(5 * SECOND);
    let (pulse, tasks) = builder.clock(clock.clone()).build_with_tasks().unwrap();
    let tasks = tasks.into_iter();
    let tasks = tasks.filter(|task| ["fold", "judge"].contains(&task.name()));
    let running: Vec<_> = tasks.map(tokio::spawn).collect();
    fleet.instances.clear();
    let rolled = async |conn: &mut _| {
        from_hex::<RolledUp>(&keys.field(conn, "rolled").await).unwrap_or_default()
    };
    assert!(rolled(&mut conn).await.is_overdue(fleet.now + 10 * MINUTE));

    let judged = || pulse.health().changes.judged_until;
    let start = clock.now_seconds();
    let mut is_held = true;
    while judged().is_none_or(|until| until <= fleet.now) {
        let passed = clock.now_seconds() - start;
        assert!(passed < 20 * MINUTE, "no instance has judged");
        if is_held && passed > 2 * MINUTE {
            // Frees the lease, but does not notify the remaining instance.
            keys.free_lease(&mut conn).await;
            is_held = false;
        }
        time.advance(SECOND);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!is_held, "an instance has judged without the lease");
    until("the ended minutes are rolled up", async || {
        let rolled = rolled(&mut conn).await;
        !rolled.is_overdue(fleet.now + 10 * MINUTE)
    })
    .await;
    running.iter().for_each(|task| task.abort());
}
