//! Suspects of a change: a timer within the page, and one instance of four.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::get;
use fastrand::Rng;
use futures_util::FutureExt;
use http::{HeaderMap, Request as HttpRequest};
use tower::ServiceExt;
use tower_pulse::{Change, ChangeKind, ManualClock, Pulse, Suspect};

use crate::fleet::{Backend, Fleet, named};
use crate::rig::seed::fixed_seed;
use crate::traffic::{SEARCH, Traffic, slow_down};

/// The page whose requests go through the layer.
const ORDER: &str = "GET /order/{id}";

/// Takes as long as its headers say, for two queries and for itself.
async fn order(State((pulse, time)): State<(Pulse, ManualClock)>, headers: HeaderMap) {
    let micros = |name: &str| {
        let micros = headers[name].to_str().unwrap().parse().unwrap();
        Duration::from_micros(micros)
    };
    for (timer, header) in [("db:find_order", "order"), ("db:find_user", "user")] {
        pulse
            .time(timer, async { time.advance(micros(header)) })
            .await;
    }
    time.advance(micros("own"));
    // It waits, while the clock moves outside of its poll.
    tokio::task::yield_now().await;
}

/// How many times as long the parts of the page take from minute 45 on.
#[derive(Clone, Copy)]
struct Growth {
    /// Its first query, which blocks.
    query: f64,
    /// Its own code, which computes.
    own: f64,
    /// What it waits for outside of timers.
    wait: f64,
}

impl Growth {
    const NONE: Self = Self {
        query: 1.0,
        own: 1.0,
        wait: 1.0,
    };
}

/// An hour of the page. Returns the fleet and the only ongoing change then.
async fn hour_of_orders(backend: Backend, growth: Growth) -> (Fleet, Change) {
    hour_of_orders_on_a_machine(backend, growth, Duration::from_millis(1)).await
}

/// The same, on a machine whose scheduling delay is so long.
async fn hour_of_orders_on_a_machine(
    backend: Backend,
    growth: Growth,
    delay: Duration,
) -> (Fleet, Change) {
    let seed = fixed_seed();
    let mut rng = Rng::with_seed(seed);
    let mut fleet = Fleet::new(backend, 1);
    let mut traffic = Traffic::new(seed, 1);
    let (pulse, time) = {
        let instance = &fleet.instances[0];
        (instance.pulse.clone(), instance.time.clone())
    };
    let routes = Router::new().route("/order/{id}", get(order));
    let app = routes
        .with_state((pulse.clone(), time.clone()))
        .layer(pulse.layer());
    for minute in 0..52 {
        let second = fleet.now + 30;
        let requests = traffic.minute();
        let mut drawn = Vec::new();
        for _ in 0..40 {
            let own = 15_000.0 * (rng.f64() + rng.f64() + 0.5);
            let query = 10_000.0 * (rng.f64() + rng.f64());
            let wait = 5_000.0 * (rng.f64() + rng.f64());
            let growth = if minute < 45 { Growth::NONE } else { growth };
            drawn.push([
                (query * growth.query) as u64,
                (query / 3.0) as u64,
                (own * growth.own) as u64,
                (wait * growth.wait) as u64,
            ]);
        }
        fleet
            .pass_with(&requests, async |_| {
                for (id, [order, user, own, wait]) in drawn.into_iter().enumerate() {
                    time.set_wall(second);
                    let request = HttpRequest::get(format!("/order/{id}"))
                        .header("order", order)
                        .header("user", user)
                        .header("own", own);
                    let request = request.body(Body::empty()).unwrap();
                    let mut response = Box::pin(app.clone().oneshot(request));
                    assert!((&mut response).now_or_never().is_none());
                    time.advance(Duration::from_micros(wait));
                    response.await.unwrap();
                }
                time.set_wall(second);
            })
            .await;
        pulse.simulation().machine(second - 30, 0.4, delay);
        assert_eq!(pulse.simulation().judge().await.unwrap(), 1);
    }
    let ongoing = fleet.ongoing().await;
    assert_eq!(named(&ongoing), [("slower", ORDER)], "{ongoing:#?}");
    let change = ongoing[0].clone();
    (fleet, change)
}

async fn a_timer_that_takes_the_time_is_the_suspect(backend: Backend) {
    let growth = Growth {
        query: 8.0,
        ..Growth::NONE
    };
    let (fleet, change) = hour_of_orders(backend, growth).await;
    let [
        Suspect::Timer {
            timer,
            then,
            now,
            share,
            ..
        },
        Suspect::Computing { .. },
    ] = &change.suspects[..]
    else {
        panic!("one timer is the suspect, which blocks: {change:#?}");
    };
    assert_eq!(&**timer, "db:find_order");
    assert!((then - 0.01).abs() < 0.001, "{then}");
    assert!((now - 0.08).abs() < 0.012, "{now}");
    assert!(*share > 0.85, "{share}");
    let answer = fleet.instances[0].json("api/changes").await;
    let suspect = &answer["changes"][0]["suspects"][0];
    assert_eq!(suspect["kind"], "timer");
    assert_eq!(suspect["timer"], "db:find_order");
}

async fn code_that_computes_is_the_suspect(backend: Backend) {
    let growth = Growth {
        own: 3.0,
        ..Growth::NONE
    };
    let (fleet, change) = hour_of_orders(backend, growth).await;
    let [
        Suspect::Code {
            then, now, share, ..
        },
        Suspect::Computing {
            then: computing_then,
            now: computing_now,
            longest,
            text,
            ..
        },
    ] = &change.suspects[..]
    else {
        panic!("the code is the suspect, and computes: {change:#?}");
    };
    // Half of the wait is no part of a timer either.
    assert!((then - 0.0275).abs() < 0.001, "{then}");
    assert!((now - 0.0725).abs() < 0.006, "{now}");
    assert!(*share > 0.85, "{share}");
    // With the queries, which block.
    assert!((computing_then - 0.0358).abs() < 0.002, "{computing_then}");
    assert!((computing_now - 0.0808).abs() < 0.006, "{computing_now}");
    assert!((0.1..0.14).contains(longest), "{longest}");
    let longer = format!("it computes longer, {:.0} ms", 1e3 * computing_now);
    assert!(text.starts_with(&longer), "{text}");
    let answer = fleet.instances[0].json("api/changes").await;
    let suspects = &answer["changes"][0]["suspects"];
    assert_eq!(suspects[0]["kind"], "code");
    assert_eq!(suspects[1]["kind"], "computing");
    assert_eq!(answer["problems"], 1);
    // Which has changed comes first, whatever its time.
    let rows = fleet.instances[0]
        .json("api/paths?sort=changed&kind=all&limit=1")
        .await;
    assert_eq!(rows["paths"][0]["context"], ORDER);
}

async fn code_that_waits_is_the_suspect(backend: Backend) {
    let growth = Growth {
        wait: 12.0,
        ..Growth::NONE
    };
    let (fleet, change) = hour_of_orders(backend, growth).await;
    let [
        Suspect::Code { .. },
        Suspect::Waiting {
            then,
            now,
            share,
            text,
            ..
        },
    ] = &change.suspects[..]
    else {
        panic!("the code is the suspect, and waits: {change:#?}");
    };
    assert!((then - 0.005).abs() < 0.0005, "{then}");
    assert!((now - 0.06).abs() < 0.008, "{now}");
    assert!(*share > 0.85, "{share}");
    let [then, now] = [1e3 * then, 1e3 * now];
    let longer = format!("it waits longer, {now:.0} ms a request instead of {then:.1} ms");
    assert!(text.starts_with(&longer), "{text}");
    let answer = fleet.instances[0].json("api/changes").await;
    assert_eq!(answer["changes"][0]["suspects"][1]["kind"], "waiting");
}

/// The time of a poll includes what the machine gives to others.
#[tokio::test]
async fn no_code_is_said_to_compute_on_a_machine_that_is_busy() {
    let growth = Growth {
        own: 3.0,
        ..Growth::NONE
    };
    let delay = Duration::from_millis(30);
    let (_fleet, change) = hour_of_orders_on_a_machine(Backend::memory(), growth, delay).await;
    let [Suspect::Machine { .. }] = &change.suspects[..] else {
        panic!("the machine is the suspect: {change:#?}");
    };
}

/// The instances that changes name.
fn instances(change: &Change) -> Vec<&str> {
    let suspects = change.suspects.iter().filter_map(|suspect| match suspect {
        Suspect::Instance { instance, .. } => Some(&**instance),
        _ => None,
    });
    suspects.chain(change.instance.as_deref()).collect()
}

async fn one_of_four_instances_is_named(backend: Backend) {
    let mut fleet = Fleet::new(backend, 4);
    let mut traffic = Traffic::new(fixed_seed(), 4);
    let mut is_named = false;
    for minute in 0..58 {
        let mut requests = traffic.minute();
        if minute >= 45 {
            for request in requests.iter_mut().filter(|request| request.instance == 2) {
                slow_down(std::slice::from_mut(request), SEARCH, 5.0);
            }
        }
        let ongoing = fleet.pass_and_judge(&requests).await;
        assert!(minute >= 45 || ongoing.is_empty(), "{minute}: {ongoing:#?}");
        // What is said of the page or of the instance on it names the instance.
        for change in &ongoing {
            let kinds = [ChangeKind::Slower, ChangeKind::Instance];
            assert!(kinds.contains(&change.kind), "{change:#?}");
            assert_eq!(&*change.context, SEARCH, "{change:#?}");
            let named = instances(change);
            assert!(named.iter().all(|name| *name == "web-3"), "{change:#?}");
            assert!(!named.is_empty(), "{change:#?}");
        }
        assert!(
            minute < 54 || !ongoing.is_empty(),
            "{minute}: nothing is named"
        );
        is_named |= ongoing.iter().any(|c| c.kind == ChangeKind::Instance);
    }
    assert!(is_named, "{:#?}", fleet.changes().await);
    let answer = fleet.instances[1].json("api/changes?kind=instance").await;
    let change = &answer["changes"][0];
    assert_eq!(change["instance"], "web-3");
    assert_eq!(change["context"], SEARCH);
    assert!(change["ratio"].as_f64().unwrap() > 2.5, "{change}");
}

in_both!(
    a_timer_that_takes_the_time_is_the_suspect,
    code_that_computes_is_the_suspect,
    code_that_waits_is_the_suspect,
    one_of_four_instances_is_named
);
