//! How many contexts there are: what health says that the detector sees, and what the overview says of the fleet.

use std::time::Duration;

use serde_json::Value;

use crate::fleet::{Backend, Fleet};
use crate::traffic::Request;

/// Thirty requests to a page.
fn requests(context: &str) -> impl Iterator<Item = Request> {
    let request = Request {
        instance: 0,
        context: context.into(),
        duration: Duration::from_millis(5),
        status: 200,
    };
    std::iter::repeat_n(request, 30)
}

/// Checks the numbers of pages and timers of the fleet, and of the pages that had requests in the last hour.
async fn check(fleet: &Fleet, (pages, timers): (u64, u64), recent: u64) {
    let instance = &fleet.instances[0];
    let number = |answer: &Value, field: &str| answer[field].as_u64().unwrap();
    let overview = instance.json("api/overview").await;
    let (contexts, of_timers) = (number(&overview, "contexts"), number(&overview, "timers"));
    assert_eq!((contexts - of_timers, of_timers), (pages, timers));
    for (kind, expected) in [("http", pages), ("timer", timers)] {
        let paths = format!("api/paths?window=24h&kind={kind}");
        let total = number(&instance.json(&paths).await, "total");
        assert_eq!(total, expected, "{kind}");
    }
    let health = instance.json("api/health").await["changes"].clone();
    let sight = instance.json("api/changes").await["sight"].clone();
    let seen = [&health, &sight].map(|of| number(of, "contexts"));
    assert_eq!(seen, [recent; 2], "{health}");
    assert!(recent <= pages && number(&health, "compared") <= recent);
    let spots = health["blind_spots"].to_string();
    let expected = format!("of {recent} pages with requests in the last hour");
    let has_unseen = number(&health, "compared") < recent;
    assert_eq!(spots.contains(&expected), has_unseen, "{spots}");
}

async fn timers_are_told_apart_from_pages(backend: Backend) {
    let mut fleet = Fleet::new(backend, 1);
    let both: Vec<_> = requests("GET /a").chain(requests("GET /b")).collect();
    for _ in 0..2 {
        let time = async |fleet: &Fleet| {
            for timer in ["db:a", "db:b", "job"] {
                let pulse = &fleet.instances[0].pulse;
                pulse.record_duration(timer, Duration::from_millis(1));
            }
        };
        fleet.pass_with(&both, time).await;
        fleet.judge().await;
    }
    check(&fleet, (2, 3), 2).await;
    let one: Vec<_> = requests("GET /a").collect();
    for _ in 0..60 {
        fleet.pass(&one).await;
    }
    fleet.judge().await;
    check(&fleet, (2, 3), 1).await;
}

in_both!(timers_are_told_apart_from_pages);
