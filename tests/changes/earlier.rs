//! The figures of yesterday and of a week ago, with which a change is compared.

use std::collections::BTreeSet;
use std::time::Duration;

use tower_pulse::{Change, ChangeKind, Earlier};

use crate::changes::fleet::{Backend, Fleet, MINUTE};
use crate::changes::traffic::{Request, SEARCH, Traffic, fail, slow_down};
use crate::rig::seed::fixed_seed;

const DAY: i64 = 86_400;
const FAILING: &str = "GET /cart";
const ALL: &str = "<all>";
const SURGING: &str = "POST /login";

/// All recorded requests, by the start of their minute.
type Minutes = Vec<(i64, Vec<Request>)>;

/// The figure of a change in a slice by a simple model, and the number of requests in this figure.
fn model(minutes: &Minutes, change: &Change, from: i64, width: i64) -> Option<(f64, u64)> {
    let of_slice = minutes
        .iter()
        .filter(|(at, _)| (from..from + width).contains(at));
    let requests = of_slice.flat_map(|(_, requests)| requests);
    let is_all = *change.context == *ALL;
    let requests: Vec<_> = requests
        .filter(|r| is_all || r.context == change.context)
        .collect();
    let count = requests.len() as u64;
    let successes: Vec<Duration> = requests
        .iter()
        .filter(|request| request.status < 500)
        .map(|request| request.duration)
        .collect();
    let value = match change.kind {
        ChangeKind::Slower => {
            successes.iter().sum::<Duration>().as_secs_f64() / successes.len() as f64
        }
        ChangeKind::Failing => (count - successes.len() as u64) as f64 / count as f64,
        ChangeKind::Surging => count as f64 * 60.0 / width as f64,
        other => panic!("{other} is not expected"),
    };
    (count > 0).then_some((value, count))
}

fn check(earlier: Option<Earlier>, change: &Change, minutes: &Minutes, (ago, width): (i64, i64)) {
    let end = |minutes: &Minutes| minutes.last().unwrap().0 + MINUTE;
    let start = (end(minutes) - ago - MINUTE).div_euclid(width) * width;
    let expected = model(minutes, change, start, width);
    let Some((value, requests)) = expected else {
        assert_eq!(earlier, None, "{change:#?}");
        return;
    };
    let earlier = earlier.unwrap_or_else(|| panic!("{ago} s ago: {change:#?}"));
    assert_eq!(earlier.requests, requests, "{ago} s ago: {change:#?}");
    let error = (earlier.value - value).abs();
    assert!(
        error <= value * (earlier.error + 1e-9),
        "{ago} s ago: {value}, and not {earlier:?}"
    );
    assert!(earlier.error < 0.1, "{earlier:?}");
    let ratio = if value > 0.0 {
        change.now / earlier.value
    } else {
        0.0
    };
    assert!((earlier.ratio - ratio).abs() <= 1e-6 * ratio, "{earlier:?}");
}

/// On each earlier day, passes 62 minutes in which [`SEARCH`] takes `factor` times as long. Today, passes an hour with
/// three incidents, or with one incident of all pages if `of_all`. Compares each figure of an earlier day with the
/// model.
async fn figures_match_a_simple_model(days: &[(i64, f64)], of_all: bool) {
    let mut fleet = Fleet::new(Backend::memory(), 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    let mut minutes = Minutes::new();
    let today = fleet.now + 7 * DAY + 13 * MINUTE;
    for (ago, factor) in days {
        fleet.now = today - ago * DAY;
        for _ in 0..62 {
            let mut requests = traffic.minute();
            slow_down(&mut requests, SEARCH, *factor);
            minutes.push((fleet.now, requests.clone()));
            fleet.pass(&requests).await;
        }
    }
    fleet.now = today;
    let mut found = BTreeSet::new();
    for minute in 0..60 {
        let mut requests = traffic.minute();
        if minute >= 45 && of_all {
            for request in &mut requests {
                request.duration = request.duration.mul_f64(2.0);
            }
        } else if minute >= 45 {
            slow_down(&mut requests, SEARCH, 3.0);
            fail(&mut requests, FAILING);
            let surge = requests.iter().filter(|r| *r.context == *SURGING);
            let surge: Vec<Request> = surge.cloned().collect();
            requests.extend(vec![surge; 5].concat());
        }
        minutes.push((fleet.now, requests.clone()));
        fleet.pass(&requests).await;
        fleet.judge().await;
        for change in fleet.ongoing().await {
            check(change.yesterday, &change, &minutes, (DAY, 1_800));
            check(change.week_ago, &change, &minutes, (7 * DAY, 21_600));
            found.insert((change.kind.as_str(), change.context.to_string()));
        }
    }
    let expected = match of_all {
        true => &[("slower", ALL)][..],
        false => &[
            ("failing", FAILING),
            ("slower", SEARCH),
            ("surging", SURGING),
        ],
    };
    for (kind, context) in expected {
        let is_found = found.contains(&(*kind, (*context).to_owned()));
        assert!(is_found, "{kind} {context}: {found:?}");
    }
}

#[tokio::test]
async fn earlier_figures_of_all_pages_match_a_simple_model() {
    figures_match_a_simple_model(&[(1, 1.0)], true).await;
}

#[tokio::test]
async fn earlier_figures_of_pages_match_a_simple_model() {
    figures_match_a_simple_model(&[(7, 0.6), (1, 1.7)], false).await;
}
