//! Timers within nested requests: with two layers, with two pulses, and with handlers that serve another request.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get;
use futures_util::FutureExt;
use http::{Request, Response};
use tower::{Service, ServiceBuilder, ServiceExt};

use super::request_timers::{advance, app, assert_no_request_left, assert_timers};
use super::{counts, expected, pulse, send};

#[tokio::test]
async fn with_two_layers_timers_count_under_the_context_of_the_request() {
    let (pulse, manual_clock) = pulse();
    let (inner, clock) = (pulse.clone(), manual_clock.clone());
    let handler = move || {
        let (pulse, manual_clock) = (inner.clone(), clock.clone());
        async move {
            for _ in 0..2 {
                pulse.time("db", async { advance(&manual_clock, 2) }).await;
                tokio::task::yield_now().await;
            }
            "done"
        }
    };
    let app = Router::new()
        .route("/", get(handler.clone()).layer(pulse.layer()))
        .route("/named", get(handler).layer(pulse.layer().named("inner")))
        .layer(pulse.layer());
    for path in ["/", "/named", "/named"] {
        send(&app, "GET", path).await;
    }
    assert_timers(&pulse, "GET /", 4, [("db", [2, 1, 4, 4])]).await;
    assert_timers(&pulse, "inner", 8, [("db", [4, 2, 8, 8])]).await;
    assert_no_request_left(&pulse);
}

#[tokio::test]
async fn each_pulse_has_its_own_timers() {
    let (outer, manual_clock) = pulse();
    let (inner, _) = pulse();
    let (a, b, clock) = (outer.clone(), inner.clone(), manual_clock.clone());
    let handler = move || {
        let (a, b, manual_clock) = (a.clone(), b.clone(), clock.clone());
        async move {
            for _ in 0..2 {
                let (first, second) = (a.timer("a"), b.timer("b"));
                advance(&manual_clock, 3);
                tokio::task::yield_now().await;
                first.stop();
                second.stop();
            }
            let task = a.within({
                let a = a.clone();
                async move { a.timer("a").stop() }
            });
            tokio::spawn(task).await.unwrap();
            let within = a.clone();
            a.within(async move { within.timer("a").stop() }).await;
            "done"
        }
    };
    let app = Router::new()
        .route("/", get(handler).layer(inner.layer()))
        .layer(outer.layer());
    send(&app, "GET", "/").await;
    assert_timers(&outer, "GET /", 6, [("a", [4, 1, 6, 6])]).await;
    // The clock of the inner pulse does not move.
    assert_timers(&inner, "GET /", 0, [("b", [2, 1, 0, 0])]).await;
    assert_no_request_left(&outer);
    assert_no_request_left(&inner);
}

#[tokio::test]
async fn a_request_within_a_request_has_its_own_timers() {
    let (pulse, manual_clock) = pulse();
    let page = app(&pulse, &manual_clock, |pulse, manual_clock| async move {
        pulse
            .time("page", async { advance(&manual_clock, 2) })
            .await;
        "page"
    });
    let page = Router::new().nest("/page", page);
    let outer = app(&pulse, &manual_clock, move |pulse, manual_clock| {
        let page = page.clone();
        async move {
            let inner = pulse.clone();
            let task = pulse.within(async move {
                inner
                    .time("before", async { advance(&manual_clock, 1) })
                    .await;
                send(&page, "GET", "/page").await;
                inner
                    .time("after", async { advance(&manual_clock, 1) })
                    .await;
            });
            tokio::spawn(task).await.unwrap();
            "outer"
        }
    });
    send(&outer, "GET", "/").await;
    assert_timers(&pulse, "GET /page", 2, [("page", [1, 1, 2, 2])]).await;
    let expected = [("before", [1, 1, 1, 1]), ("after", [1, 1, 1, 1])];
    assert_timers(&pulse, "GET /", 2, expected).await;
}

#[tokio::test]
async fn a_request_that_another_request_polls_has_its_own_timers() {
    let (pulse, manual_clock) = pulse();
    let waiting = Arc::new(Mutex::new(None));
    let (inner, slot) = (pulse.clone(), waiting.clone());
    let mut service = ServiceBuilder::new()
        .layer(pulse.layer_with(|head| Some(head.uri.path().to_owned().into())))
        .service_fn(move |request: Request<()>| {
            let (pulse, manual_clock) = (inner.clone(), manual_clock.clone());
            let slot = slot.clone();
            async move {
                pulse
                    .time("first", async { advance(&manual_clock, 1) })
                    .await;
                let other = slot.lock().unwrap().take();
                if let (Some(other), "/outer") = (other, request.uri().path()) {
                    let _: Result<Response<()>, Infallible> = other.await;
                }
                pulse
                    .time("last", async { advance(&manual_clock, 2) })
                    .await;
                Ok::<_, Infallible>(Response::new(()))
            }
        });
    let mut call = |path| {
        let request = Request::get(path).body(()).unwrap();
        let service = service.ready().now_or_never().unwrap().unwrap();
        service.call(request).boxed()
    };
    let (other, outer) = (call("/other"), call("/outer"));
    *waiting.lock().unwrap() = Some(other);
    outer.await.unwrap();
    for path in ["/other", "/outer"] {
        let expected = [("first", [1, 1, 1, 1]), ("last", [1, 1, 2, 2])];
        assert_timers(&pulse, path, 3, expected).await;
    }
    assert_no_request_left(&pulse);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_concurrent_requests_neither_lose_nor_repeat_timers() {
    const REQUESTS: u64 = 500;
    let (pulse, manual_clock) = pulse();
    let audits = Arc::new(Mutex::new(Vec::new()));
    let tasks = audits.clone();
    #[cfg(feature = "rankings")]
    let posts = pulse.ranking("posts").build().unwrap();
    #[cfg(feature = "rankings")]
    let liked = posts.clone();
    let app = app(&pulse, &manual_clock, move |pulse, _| {
        let tasks = tasks.clone();
        // Many additions, because drains run at the same time.
        #[cfg(feature = "rankings")]
        (0..100).for_each(|_| liked.add("7", 1));
        async move {
            let query = |name| pulse.time(name, tokio::task::yield_now());
            tokio::join!(query("db"), query("db"));
            // Some audits end before their request, others after it.
            let audit = tokio::spawn(pulse.within({
                let pulse = pulse.clone();
                async move { pulse.time("audit", tokio::task::yield_now()).await }
            }));
            tasks.lock().unwrap().push(audit);
            query("render").await;
            "done"
        }
    });
    let clients = (0..8).map(|_| {
        let app = app.clone();
        tokio::spawn(async move {
            for _ in 0..REQUESTS {
                send(&app, "GET", "/").await;
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    while !clients.iter().all(tokio::task::JoinHandle::is_finished) {
        pulse.simulation().drain();
        tokio::task::yield_now().await;
    }
    let audits = std::mem::take(&mut *audits.lock().unwrap());
    for task in clients.into_iter().chain(audits) {
        task.await.unwrap();
    }
    let all = 8 * REQUESTS;
    let runs = [("audit", all), ("db", 2 * all), ("render", all)];
    let [audit, db, render] = runs;
    let own = expected([("GET /", all), audit, db, render]);
    assert_eq!(counts(&pulse).await, own);
    #[cfg(feature = "rankings")]
    assert_eq!(posts.score("7").await.unwrap(), Some(100 * all as i64));
    // The clock does not move.
    let within = runs.map(|(name, runs)| (name, [runs, all, 0, 0]));
    assert_timers(&pulse, "GET /", 0, within).await;
}
