//! A load that returns in the same hour of each week is no change after three weeks.

use std::collections::BTreeSet;

use crate::changes::fleet::{Backend, Fleet, MINUTE, START, named};
use crate::changes::traffic::{SEARCH, Traffic, slow_down};
use crate::rig::seed::fixed_seed;

const PRODUCT: &str = "GET /products/{id}";
const WEEK: i64 = 7 * 86_400;

/// Passes 150 minutes. In the second hour, one page has `traffic` times the requests, and another takes `time` times as
/// long. Returns all changes that were ongoing at any time.
async fn pass_week(
    fleet: &mut Fleet,
    usual: &mut Traffic,
    (traffic, time): (f64, f64),
) -> BTreeSet<(String, String)> {
    let mut ongoing = BTreeSet::new();
    for minute in 0..150 {
        let is_busy = (60..120).contains(&minute);
        let mut requests = usual.minute_with(|context| match context {
            PRODUCT if is_busy => traffic,
            _ => 1.0,
        });
        if is_busy {
            slow_down(&mut requests, SEARCH, time);
        }
        fleet.pass(&requests).await;
        fleet.judge().await;
        let now = fleet.ongoing().await;
        let names = named(&now).into_iter();
        ongoing.extend(names.map(|(kind, context)| (kind.to_owned(), context.to_owned())));
    }
    ongoing
}

#[tokio::test]
async fn a_weekly_load_is_no_change_but_a_larger_one_is() {
    let mut fleet = Fleet::new(Backend::memory(), 1);
    let mut usual = Traffic::new(fixed_seed(), 1);
    let both: BTreeSet<_> = [("slower", SEARCH), ("surging", PRODUCT)]
        .map(|(kind, context)| (kind.to_owned(), context.to_owned()))
        .into();
    for week in 0..5 {
        fleet.now = START + week * WEEK;
        let more = if week == 4 { (10.0, 4.0) } else { (4.0, 2.0) };
        let ongoing = pass_week(&mut fleet, &mut usual, more).await;
        match week {
            3 => assert_eq!(ongoing, BTreeSet::new(), "week {week}"),
            _ => assert_eq!(ongoing, both, "week {week}"),
        }
    }
    assert_eq!(fleet.now, START + 4 * WEEK + 150 * MINUTE);
}
