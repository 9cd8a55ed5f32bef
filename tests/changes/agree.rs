//! Four instances on one store agree, and each change is passed to the callbacks of one instance.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;
use tower_pulse::{Change, ChangeKind};

use crate::changes::fleet::{Backend, Fleet, Instance, MINUTE, START};
use crate::changes::traffic::{SEARCH, Traffic, fail, slow_down};
use crate::rig::seed::fixed_seed;
use crate::rig::wait::until;

const INSTANCES: usize = 4;

/// The changes with which a callback was called.
type Calls = Arc<Mutex<Vec<Change>>>;

/// Registers three functions on every instance: the second panics, the first and the third keep the changes.
fn register(fleet: &Fleet) -> [Calls; 2] {
    let calls = [Calls::default(), Calls::default()];
    let note = |calls: &Calls| {
        let calls = calls.clone();
        move |change: &Change| calls.lock().unwrap().push(change.clone())
    };
    for Instance { pulse, .. } in &fleet.instances {
        pulse.on_change(note(&calls[0]));
        pulse.on_change(|change| panic!("a callback of the test panics: {}", change.id));
        pulse.on_change(note(&calls[1]));
    }
    calls
}

/// The value that all instances agree on; panics if their values differ.
fn same<T: PartialEq + std::fmt::Debug>(mut of_instances: Vec<T>) -> T {
    let first = of_instances.swap_remove(0);
    for other in of_instances {
        assert_eq!(first, other);
    }
    first
}

#[tokio::test]
async fn four_instances_report_the_same_changes() {
    let seed = fixed_seed();
    let mut rng = Rng::with_seed(seed);
    let mut fleet = Fleet::new(Backend::redis().await, INSTANCES);
    let mut traffic = Traffic::new(seed, INSTANCES);
    let calls = register(&fleet);
    let slow_at = START + 50 * MINUTE;
    let fast_at = slow_at + 10 * MINUTE;
    let (mut judged_by, mut checked) = ([0; INSTANCES], 0);
    let mut known: HashMap<Arc<str>, Change> = HashMap::new();
    while fleet.now < fast_at + 15 * MINUTE {
        let mut requests = traffic.minute();
        if (slow_at..fast_at).contains(&fleet.now) {
            slow_down(&mut requests, SEARCH, 3.0);
            fail(&mut requests, "GET /cart");
        }
        fleet.pass(&requests).await;
        let mut order: Vec<usize> = (0..INSTANCES).collect();
        rng.shuffle(&mut order);
        let mut judged = 0;
        for number in order {
            let minutes = fleet.judge_by(number).await;
            judged_by[number] += minutes;
            judged += minutes;
        }
        assert_eq!(judged, 1, "each minute is judged once");

        let (mut changes, mut answers) = (Vec::new(), Vec::new());
        for instance in &fleet.instances {
            changes.push(instance.pulse.changes().await.unwrap());
            answers.push(instance.json("api/changes").await);
        }
        let (changes, answer) = (same(changes), same(answers));
        // The list of changes has a change before a callback is called with this change.
        let all = calls[0].lock().unwrap().clone();
        let are_listed = all[checked..].iter().all(|change| changes.contains(change));
        assert!(are_listed, "{all:#?}: {changes:#?}");
        checked = all.len();
        assert_eq!(answer["judged_until"], fleet.now);
        let ids = |change: &Value| change["id"].as_str().unwrap().to_owned();
        let answered = answer["changes"].as_array().unwrap().iter().map(ids);
        let listed = changes.iter().map(|change| change.id.to_string());
        assert_eq!(answered.collect::<Vec<_>>(), listed.collect::<Vec<_>>());
        let changes = changes.into_iter();
        known.extend(changes.map(|change| (change.id.clone(), change)));
    }
    let minutes = usize::try_from((fleet.now - START) / MINUTE).unwrap();
    assert_eq!(judged_by.iter().sum::<usize>(), minutes);
    assert!(
        judged_by.iter().all(|minutes| *minutes > 0),
        "{judged_by:?}"
    );
    for (kind, context) in [
        (ChangeKind::Slower, SEARCH),
        (ChangeKind::Failing, "GET /cart"),
    ] {
        let ended = |change: &Change| {
            (change.kind, &*change.context) == (kind, context) && change.ended.is_some()
        };
        assert!(known.values().any(ended), "{kind} {context}: {known:#?}");
    }
    let begun = known.keys().map(|id| (id.clone(), false));
    let ended = known.values().filter(|change| change.ended.is_some());
    let ended = ended.map(|change| (change.id.clone(), true));
    let mut expected: Vec<_> = begun.chain(ended).collect();
    expected.sort();
    for calls in calls {
        let calls = calls.lock().unwrap();
        let calls = calls
            .iter()
            .map(|one| (one.id.clone(), one.ended.is_some()));
        let mut calls: Vec<_> = calls.collect();
        calls.sort();
        assert_eq!(calls, expected);
    }
}

#[tokio::test]
async fn a_callback_that_never_returns_stops_neither_judging_nor_other_calls() {
    let mut fleet = Fleet::new(Backend::memory(), 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let calls = Calls::default();
    let counted = calls.clone();
    fleet.instances[0].pulse.on_change(move |change| {
        counted.lock().unwrap().push(change.clone());
        // Blocks until the test ends.
        let _ = blocked.lock().unwrap().recv();
    });
    for minute in 0..60 {
        let mut requests = traffic.minute();
        if minute >= 45 {
            slow_down(&mut requests, SEARCH, 3.0);
            fail(&mut requests, "GET /cart");
        }
        fleet.pass(&requests).await;
        let judging = fleet.instances[0].pulse.simulation().judge();
        let waiting = async {
            loop {
                fleet.instances[0].time.advance(Duration::from_millis(100));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let judged = tokio::select! {
            judged = judging => judged.unwrap(),
            () = waiting => unreachable!("the loop never ends"),
        };
        assert_eq!(judged, 1, "minute {minute}");
    }
    let changes = fleet.changes().await;
    assert_eq!(changes.len(), 2, "{changes:#?}");
    let what = "the functions are called for both changes";
    until(what, async || calls.lock().unwrap().len() == 2).await;
    drop(release);
}
