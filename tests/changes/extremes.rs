//! Clocks that jump, and contexts that come and go.

use std::time::Duration;

use tower_pulse_core::query::dashboard::OverviewQuery;

use crate::changes::fleet::{Backend, Fleet, MINUTE, named};
use crate::changes::traffic::{PAGES, SEARCH, Traffic, requests};
use crate::rig::seed::fixed_seed;

#[tokio::test]
async fn after_a_clock_is_set_back_a_day_judging_goes_on() {
    let (mut fleet, mut traffic) = Fleet::with_a_slow_page(Backend::memory()).await;
    fleet.now -= 86_400;
    let (mut judged, from) = (0, fleet.now);
    for _ in 0..50 {
        fleet.pass(&traffic.minute()).await;
        judged += fleet.judge().await;
    }
    assert!((45..=50).contains(&judged), "{judged} minutes of 50");
    let health = fleet.instances[0].pulse.health();
    assert_eq!(health.changes.judged_until, Some(fleet.now));
    // The page is fast again, so no change is ongoing.
    assert_eq!(named(&fleet.ongoing().await), []);
    fleet.slow(&mut traffic, 6).await;
    let ongoing = fleet.ongoing().await;
    assert_eq!(named(&ongoing), [("slower", SEARCH)]);
    let off = ongoing[0].since - from - 50 * MINUTE;
    assert!(off.abs() <= 2 * MINUTE, "{ongoing:?}");
}

#[tokio::test]
async fn after_a_clock_is_set_forward_a_day_at_most_91_minutes_are_judged() {
    let (mut fleet, mut traffic) = Fleet::with_a_slow_page(Backend::memory()).await;
    fleet.now += 86_400;
    fleet.pass(&traffic.minute()).await;
    let judged = fleet.judge().await;
    assert!((1..=91).contains(&judged), "{judged} minutes are judged");
    let health = fleet.instances[0].pulse.health();
    assert_eq!(health.changes.judged_until, Some(fleet.now));
    fleet.usual(&mut traffic, 50).await;
    assert_eq!(named(&fleet.ongoing().await), []);
    assert_eq!(fleet.changes().await.len(), 1);
}

#[tokio::test]
async fn an_instance_whose_clock_is_behind_changes_no_verdict() {
    let mut fleet = Fleet::new(Backend::memory(), 2);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    for minute in 0..60 {
        match minute {
            0..45 => fleet.usual(&mut traffic, 1).await,
            _ => fleet.slow(&mut traffic, 1).await,
        }
        fleet.instances[1].time.set_wall(fleet.now - 2 * 3_600);
        assert_eq!(fleet.judge_by(1).await, 0);
        fleet.instances[1].time.set_wall(fleet.now);
    }
    let changes = fleet.changes().await;
    assert_eq!(named(&changes), [("slower", SEARCH)], "{changes:#?}");
}

#[tokio::test]
async fn pages_that_come_and_go_are_counted_and_are_not_changes() {
    let mut fleet = Fleet::new(Backend::memory(), 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    for minute in 0..60 {
        let mut all = traffic.minute();
        // Each page of a campaign has requests in one minute only.
        for n in 0..20 {
            let campaign = format!("GET /campaign/{minute}/{n}");
            all.extend(requests(0, &campaign, 1, 5));
        }
        if minute % 5 == 0 {
            all.extend(requests(0, "GET /job", 30, 80));
        }
        if minute >= 30 {
            all.extend(requests(0, "GET /new", 50, 9));
        }
        // A timer does not count as a page.
        let time = async |fleet: &Fleet| {
            let pulse = &fleet.instances[0].pulse;
            pulse.record_duration("db", Duration::from_millis(1));
        };
        fleet.pass_with(&all, time).await;
        fleet.judge().await;
    }
    let changes = fleet.changes().await;
    assert_eq!(named(&changes), [], "{changes:#?}");
    let health = fleet.instances[0].pulse.health().changes;
    let pages = PAGES.len() + 60 * 20 + 2;
    assert_eq!(health.contexts, pages);
    // The new page is compared too, besides the usual pages.
    assert!(health.compared > PAGES.len(), "{health:?}");
    let unseen = format!("of {pages} pages with requests in the last hour");
    assert!(health.blind_spots.iter().any(|spot| spot.contains(&unseen)));
    let query = fleet.instances[0].pulse.query();
    let overview = query.ask(&OverviewQuery::default()).await.unwrap();
    assert_eq!((overview.contexts, overview.timers), (pages + 1, 1));
}
