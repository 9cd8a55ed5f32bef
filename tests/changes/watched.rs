//! A page that is likely slower, before that is certain.

use serde_json::{Value, json};

use crate::fleet::{Backend, Fleet, named};
use crate::rig::seed::fixed_seed;
use crate::traffic::{SEARCH, Traffic, slow_down};

/// A page of a service of two instances that becomes slower after an hour.
struct Slowing {
    fleet: Fleet,
    traffic: Traffic,
}

impl Slowing {
    async fn new(backend: Backend) -> Self {
        let mut fleet = Fleet::new(backend, 2);
        let mut traffic = Traffic::new(fixed_seed(), 2);
        for _ in 0..60 {
            fleet.pass_and_judge(&traffic.minute()).await;
        }
        Self { fleet, traffic }
    }

    /// Another minute. Returns the changes, as each of the instances answers them.
    async fn minute(&mut self) -> [Value; 2] {
        let mut requests = self.traffic.minute();
        slow_down(&mut requests, SEARCH, 3.0);
        self.fleet.pass_and_judge(&requests).await;
        let [first, second] = &self.fleet.instances[..] else {
            unreachable!("there are two");
        };
        [
            first.json("api/changes").await,
            second.json("api/changes").await,
        ]
    }
}

/// The answer of a service that watches a page.
pub async fn watching() -> Value {
    let mut slowing = Slowing::new(Backend::memory()).await;
    slowing.minute().await;
    let [answer, _] = slowing.minute().await;
    answer
}

async fn a_page_is_watched_from_its_second_minute_until_its_change_stands(backend: Backend) {
    let mut slowing = Slowing::new(backend).await;
    // The instance that does not judge shows it as well.
    for answer in slowing.minute().await {
        assert_eq!(answer["watched"], json!([]), "{answer}");
    }
    let since = slowing.fleet.now - 60;
    for answer in slowing.minute().await {
        assert_eq!(answer["total"], 0, "{answer}");
        let [page] = &answer["watched"].as_array().unwrap()[..] else {
            panic!("one page: {answer}");
        };
        assert_eq!(page["context"], SEARCH);
        assert_eq!(page["method"], "GET");
        assert_eq!(page["path"], "/search");
        assert_eq!(page["since"], since);
        let ratio = page["ratio"].as_f64().unwrap();
        assert!((2.4..=3.6).contains(&ratio), "{page}");
    }
    for (kind, watched) in [("failing", 0), ("slower", 1)] {
        let uri = format!("api/changes?kind={kind}");
        let answer = slowing.fleet.instances[0].json(&uri).await;
        assert_eq!(
            answer["watched"].as_array().unwrap().len(),
            watched,
            "{uri}"
        );
    }
    for _ in 0..2 {
        slowing.minute().await;
    }
    for answer in slowing.minute().await {
        assert_eq!(answer["watched"], json!([]), "{answer}");
    }
    assert_eq!(named(&slowing.fleet.ongoing().await), [("slower", SEARCH)]);
}

in_both!(a_page_is_watched_from_its_second_minute_until_its_change_stands);
