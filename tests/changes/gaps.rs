//! A service that was not running for a while: what it records afterwards is judged against what it recorded before, and
//! the time between counts as not recorded, in every answer.

use serde_json::Value;
use tower_pulse_core::store::in_process::Access;
use tower_pulse_core::store::memory::MemoryStore;

use crate::fleet::{Backend, Fleet, MINUTE, named};
use crate::rig::seed::fixed_seed;
use crate::traffic::Traffic;

/// Minutes before the service stops, and minutes for which it is away.
const BEFORE: i64 = 90;
const AWAY: i64 = 20;

/// Says that no instance recorded between two Unix seconds.
async fn set_gap(store: &MemoryStore, gap: (i64, i64)) {
    let set = store.with(Access::Write, move |state| {
        state.kept.gaps = vec![gap];
        Ok(())
    });
    set.await.unwrap();
}

/// A service in memory that was away for [`AWAY`] minutes. Its memory survives it, as a file does.
async fn restarted(traffic: &mut Traffic) -> Fleet {
    let mut fleet = Fleet::new(Backend::memory(), 1);
    for _ in 0..BEFORE {
        let ongoing = fleet.pass_and_judge(&traffic.minute()).await;
        assert_eq!(named(&ongoing), []);
    }
    let stopped = fleet.now;
    fleet.now += AWAY * MINUTE;
    fleet.set_clocks(fleet.now);
    fleet.restart(0).await;
    if let Backend::Memory(store, _) = &fleet.backend {
        set_gap(store, (stopped, fleet.now)).await;
    }
    fleet
}

#[tokio::test]
async fn a_restart_is_no_change() {
    let seed = fixed_seed();
    let mut traffic = Traffic::new(seed, 1);
    let mut fleet = restarted(&mut traffic).await;
    for minute in 0..40 {
        fleet.pass(&traffic.minute()).await;
        fleet.judge().await;
        let changes = fleet.changes().await;
        assert_eq!(named(&changes), [], "seed {seed}, minute {minute}");
    }
}

fn number(answer: &Value, field: &str) -> f64 {
    answer[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} of {answer}"))
}

/// A service that serves the same each minute, and was away for half of the window before the present one.
#[tokio::test]
async fn rates_and_comparisons_leave_the_gap_out() {
    let mut traffic = Traffic::new(fixed_seed(), 1);
    let requests = traffic.minute();
    let mut fleet = Fleet::new(Backend::memory(), 1);
    for _ in 0..40 {
        fleet.pass(&requests).await;
    }
    let gap = (fleet.now, fleet.now + AWAY * MINUTE);
    fleet.now = gap.1;
    fleet.set_clocks(fleet.now);
    fleet.restart(0).await;
    for _ in 0..30 {
        fleet.pass(&requests).await;
    }
    let Backend::Memory(store, _) = &fleet.backend else {
        unreachable!("the store is in memory");
    };
    let instance = &fleet.instances[0];
    let paths = |window: &str| format!("api/paths?window={window}&series=hits&limit=1");
    let without = instance.json(&paths("1h")).await;
    set_gap(store, gap).await;
    // Answers are as old as a second.
    instance.time.advance(std::time::Duration::from_secs(2));
    let with = instance.json(&paths("1h")).await;

    let missing = (AWAY * MINUTE) as f64;
    assert_eq!(number(&without, "not_running_seconds"), 0.0);
    assert_eq!(number(&with, "not_running_seconds"), missing);
    let recorded = |answer: &Value| number(answer, "recorded_seconds");
    let difference = recorded(&without) + 2.0 - recorded(&with);
    assert!((difference - missing).abs() <= 1.0, "{difference}");
    assert!((0.6..0.7).contains(&number(&with, "complete")), "{with}");
    let row = &with["paths"][0];
    let rate = number(row, "per_second") * 60.0 * recorded(&with);
    assert!((rate / 60.0 - number(row, "count")).abs() < 1e-6, "{row}");

    let of_gap = |answer: &Value| -> Vec<Value> {
        let span = &answer["series"];
        let from = span["from"].as_i64().unwrap();
        let values = answer["paths"][0]["series"].as_array().unwrap();
        let starts = (from..).step_by(MINUTE as usize);
        let within = starts
            .zip(values)
            .filter(|(at, _)| (gap.0..gap.1).contains(at));
        within.map(|(_, value)| value.clone()).collect()
    };
    assert_eq!(of_gap(&without), vec![Value::from(0); AWAY as usize]);
    assert_eq!(of_gap(&with), vec![Value::Null; AWAY as usize]);

    let series = instance
        .json("api/series?metric=hits&window=1h&precision=60")
        .await;
    assert_eq!(series["not_running"], serde_json::json!([[gap.0, gap.1]]));
    assert_eq!(number(&series, "not_running_seconds"), missing);
    let all = instance.json("api/series?metric=hits").await;
    assert_eq!(all.get("not_running"), None, "no window was asked for");
}
