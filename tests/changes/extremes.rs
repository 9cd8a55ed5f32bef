//! Clocks that jump, contexts without number, and other input that nobody would call traffic.

use std::time::Duration;

use tower_pulse::{ChangeKind, Pulse};

use crate::fleet::{Backend, Fleet, MINUTE, named};
use crate::rig::seed::fixed_seed;
use crate::traffic::{PAGES, Request, SEARCH, Traffic, slow_down};

fn request(context: &str, duration: Duration, status: u16) -> Request {
    Request {
        instance: 0,
        context: context.into(),
        duration,
        status,
    }
}

/// Lets minutes pass until a page is slower for some minutes.
async fn slow(fleet: &mut Fleet, traffic: &mut Traffic) {
    for minute in 0..50 {
        let mut requests = traffic.minute();
        if minute >= 45 {
            slow_down(&mut requests, SEARCH, 3.0);
        }
        fleet.pass_and_judge(&requests).await;
    }
    assert_eq!(named(&fleet.ongoing().await), [("slower", SEARCH)]);
}

async fn a_clock_that_is_set_back_a_day_stops_nothing_for_long(backend: Backend) {
    let mut fleet = Fleet::new(backend, 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    slow(&mut fleet, &mut traffic).await;
    fleet.now -= 86_400;
    let (mut judged, from) = (0, fleet.now);
    for _ in 0..50 {
        fleet.pass(&traffic.minute()).await;
        judged += fleet.judge().await;
    }
    assert!(
        (45..=50).contains(&judged),
        "{judged} minutes of 50 are judged"
    );
    let health = fleet.instances[0].pulse.health();
    assert_eq!(health.changes.judged_until, Some(fleet.now));
    // The page is as fast as it was on the day before.
    assert_eq!(named(&fleet.ongoing().await), []);
    // What is found is found as ever.
    for _ in 0..6 {
        let mut requests = traffic.minute();
        slow_down(&mut requests, SEARCH, 3.0);
        fleet.pass_and_judge(&requests).await;
    }
    let ongoing = fleet.ongoing().await;
    assert_eq!(named(&ongoing), [("slower", SEARCH)]);
    assert!(
        (ongoing[0].since - from - 50 * MINUTE).abs() <= 2 * MINUTE,
        "{ongoing:?}"
    );
}

async fn a_clock_that_is_set_forward_a_day_costs_no_day_of_judging(backend: Backend) {
    let mut fleet = Fleet::new(backend, 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    slow(&mut fleet, &mut traffic).await;
    fleet.now += 86_400;
    fleet.pass(&traffic.minute()).await;
    let judged = fleet.judge().await;
    assert!((1..=91).contains(&judged), "{judged} minutes are judged");
    let health = fleet.instances[0].pulse.health();
    assert_eq!(health.changes.judged_until, Some(fleet.now));
    for _ in 0..50 {
        fleet.pass_and_judge(&traffic.minute()).await;
    }
    assert_eq!(named(&fleet.ongoing().await), []);
    let changes = fleet.changes().await;
    assert_eq!(changes.len(), 1, "{changes:#?}");
}

/// A clock that is far behind must not undo what the others judge.
#[tokio::test]
async fn an_instance_whose_clock_is_behind_disturbs_nobody() {
    let mut fleet = Fleet::new(Backend::memory(), 2);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    for minute in 0..60 {
        let mut requests = traffic.minute();
        if minute >= 45 {
            slow_down(&mut requests, SEARCH, 3.0);
        }
        fleet.pass_and_judge(&requests).await;
        let late = &fleet.instances[1];
        late.time.set_wall(fleet.now - 2 * 3_600);
        assert_eq!(late.pulse.simulation().judge().await.unwrap(), 0);
        late.time.set_wall(fleet.now);
    }
    let changes = fleet.changes().await;
    assert_eq!(named(&changes), [("slower", SEARCH)], "{changes:#?}");
}

async fn a_gap_of_three_hours_is_no_change(backend: Backend) {
    let mut fleet = Fleet::new(backend, 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    for _ in 0..50 {
        fleet.pass_and_judge(&traffic.minute()).await;
    }
    // Nobody runs meanwhile.
    fleet.now += 3 * 3_600;
    fleet.restart(0).await;
    fleet.pass(&traffic.minute()).await;
    assert!(fleet.judge().await <= 91);
    let mut found = fleet.changes().await;
    for _ in 0..40 {
        fleet.pass_and_judge(&traffic.minute()).await;
        found = fleet.changes().await;
    }
    found.retain(|change| change.kind != ChangeKind::Silent);
    assert_eq!(named(&found), [], "{found:#?}");
    let ongoing = fleet.ongoing().await;
    assert_eq!(named(&ongoing), [], "{ongoing:#?}");
    for _ in 0..6 {
        let mut requests = traffic.minute();
        slow_down(&mut requests, SEARCH, 3.0);
        fleet.pass_and_judge(&requests).await;
    }
    assert_eq!(named(&fleet.ongoing().await), [("slower", SEARCH)]);
}

async fn contexts_that_come_and_go_are_known(backend: Backend) {
    let mut fleet = Fleet::new(backend, 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    for minute in 0..60 {
        let mut requests = traffic.minute();
        // Each is there for a minute only.
        for n in 0..20 {
            let context = format!("GET /campaign/{minute}/{n}");
            requests.push(request(&context, Duration::from_millis(5), 200));
        }
        // One comes every fifth minute, and one from the middle on.
        if minute % 5 == 0 {
            requests.extend((0..30).map(|_| request("GET /job", Duration::from_millis(80), 200)));
        }
        if minute >= 30 {
            requests.extend((0..50).map(|_| request("GET /new", Duration::from_millis(9), 200)));
        }
        fleet.pass_and_judge(&requests).await;
    }
    let changes = fleet.changes().await;
    assert_eq!(named(&changes), [], "{changes:#?}");
    let sight = fleet.instances[0].pulse.health().changes;
    assert_eq!(sight.contexts, PAGES.len() + 60 * 20 + 2);
    // The new one is compared, beside all that always were.
    assert!(sight.compared > PAGES.len(), "{sight:?}");
}

#[tokio::test]
async fn the_longest_and_shortest_times_are_judged() {
    let mut fleet = Fleet::new(Backend::memory(), 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    let extremes = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_secs(3_600),
        Duration::from_secs(86_400 * 30),
        Duration::MAX,
    ];
    for minute in 0..60 {
        let mut requests = traffic.minute();
        for n in 0..40 {
            let duration = extremes[(n + minute) % extremes.len()];
            requests.push(request("GET /extreme", duration, 200));
            // From nothing to an hour.
            let duration = if minute < 45 {
                Duration::ZERO
            } else {
                extremes[2]
            };
            requests.push(request("GET /frozen", duration, 200));
            let status = if minute < 45 { 200 } else { 599 };
            requests.push(request("GET /broken", Duration::ZERO, status));
        }
        fleet.pass_and_judge(&requests).await;
    }
    let ongoing = fleet.ongoing().await;
    let names = named(&ongoing);
    assert_eq!(names.len(), 2, "{ongoing:#?}");
    assert!(names.contains(&("slower", "GET /frozen")), "{names:?}");
    assert!(names.contains(&("failing", "GET /broken")), "{names:?}");
    for change in &ongoing {
        let numbers = [
            change.then,
            change.now,
            change.ratio,
            change.confidence,
            change.seconds_per_minute,
            change.extra_seconds_per_minute,
            change.from_traffic,
            change.from_code,
        ];
        assert!(
            numbers.iter().all(|number| number.is_finite()),
            "{change:?}"
        );
    }
    let answer = fleet.instances[0].json("api/changes").await;
    assert_eq!(answer["standing"], 2);
}

#[tokio::test]
async fn a_service_with_one_page_is_compared_with_itself() {
    let mut fleet = Fleet::new(Backend::memory(), 1);
    let mut traffic = Traffic::of(&PAGES[1..2], fixed_seed(), 1);
    for minute in 0..70 {
        let mut requests = traffic.minute();
        if minute >= 60 {
            slow_down(&mut requests, SEARCH, 2.5);
        }
        let ongoing = fleet.pass_and_judge(&requests).await;
        assert!(minute >= 60 || ongoing.is_empty(), "{minute}: {ongoing:?}");
    }
    let changes = fleet.changes().await;
    assert_eq!(named(&changes), [("slower", SEARCH)], "{changes:#?}");
}

async fn a_service_without_requests_is_judged(backend: Backend) {
    let mut fleet = Fleet::new(backend, 2);
    for _ in 0..20 {
        assert_eq!(named(&fleet.pass_and_judge(&[]).await), []);
    }
    let health = fleet.instances[0].pulse.health();
    assert_eq!(health.changes.judged_until, Some(fleet.now));
    let answer = fleet.instances[1].json("api/changes").await;
    assert_eq!(answer["total"], 0);
    assert_eq!(answer["judged_until"], fleet.now);
    assert_eq!(answer["sight"]["contexts"], 0);
}

/// A page that was busy and has no requests any more is silent, and the whole service too.
#[tokio::test]
async fn silence_is_told_of_a_page_and_of_the_service() {
    let mut fleet = Fleet::new(Backend::memory(), 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    for minute in 0..60 {
        let mut requests = traffic.minute();
        if minute >= 50 {
            requests.retain(|request| *request.context != *SEARCH);
        }
        fleet.pass_and_judge(&requests).await;
    }
    assert_eq!(named(&fleet.ongoing().await), [("silent", SEARCH)]);
    let change = fleet.ongoing().await.remove(0);
    assert_eq!((change.now, change.requests), (0.0, 0));
    assert!((change.then / 60.0 - 1.0).abs() < 0.2, "{change:?}");
    fleet.pass_and_judge(&traffic.minute()).await;
    fleet.pass_and_judge(&traffic.minute()).await;
    fleet.pass_and_judge(&traffic.minute()).await;
    assert_eq!(named(&fleet.ongoing().await), []);
}

#[tokio::test]
async fn a_pulse_without_minutes_answers() {
    let pulse = Pulse::builder().build().unwrap();
    assert_eq!(pulse.changes().await.unwrap(), []);
    assert_eq!(pulse.health().changes.judged_until, None);
}

in_both!(
    a_clock_that_is_set_back_a_day_stops_nothing_for_long,
    a_clock_that_is_set_forward_a_day_costs_no_day_of_judging,
    a_gap_of_three_hours_is_no_change,
    contexts_that_come_and_go_are_known,
    a_service_without_requests_is_judged
);
