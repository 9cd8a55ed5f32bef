//! How requests fail: status codes, kinds of errors, messages, and panics.

use std::panic::{Location, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::FutureExt;
use http::StatusCode;
use tower::ServiceExt;
use tower_http::catch_panic::CatchPanicLayer;
use tower_pulse::{Failure, Pulse};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::tally::MAX_CODES;

use super::slow_requests::listed;
use super::{context, layered, pulse, pulse_with, request, send, snapshot};

async fn sums(pulse: &Pulse, name: &str) -> Aggregate {
    context(pulse, name).await.hour.unwrap().aggregate
}

fn codes(sums: &Aggregate) -> Vec<(u16, u64)> {
    sums.codes.iter().map(|(code, n)| (*code, n)).collect()
}

fn kinds(sums: &Aggregate) -> Vec<(&str, u64)> {
    sums.kinds.iter().map(|(kind, n)| (&**kind, n)).collect()
}

/// The failures of the newest failed requests of a context.
async fn failures(pulse: &Pulse, context: &str) -> Vec<Failure> {
    let listed = listed(pulse, Some(context)).await;
    let failed = listed.failed();
    failed.map(|row| row.failure.clone().unwrap()).collect()
}

/// A route that answers with the status in its path, and with a failure.
fn failing() -> Router {
    let handler = async |Path(status): Path<u16>| {
        let failure = Failure::new(format!("kind {status}"));
        let mut response = (StatusCode::from_u16(status).unwrap(), "a body").into_response();
        let extensions = response.extensions_mut();
        extensions.insert(failure.with_message(format_args!("of {status}")));
        response
    };
    Router::new().route("/{status}", get(handler))
}

#[tokio::test]
async fn a_failure_is_counted_with_any_status_and_listed_with_errors() {
    let (pulse, _) = pulse();
    for (times, app) in (1..).zip(layered(&pulse, failing())) {
        for path in ["/200", "/404", "/503", "/503"] {
            let body = send(&app, "GET", path).await.into_body();
            axum::body::to_bytes(body, 100).await.unwrap();
        }
        drop(send(&app, "GET", "/502").await);
        let all = snapshot(&pulse).await.all.hour.unwrap().aggregate;
        for sums in [sums(&pulse, "GET /{status}").await, all] {
            let expected = [(200, times), (404, times), (502, times), (503, 2 * times)];
            assert_eq!(codes(&sums), expected);
            for (status, n) in expected {
                assert_eq!(sums.kinds.get(&*format!("kind {status}")), n, "{status}");
            }
            let totals = (sums.kinds.total(), sums.outcomes.errors);
            assert_eq!(totals, (5 * times, 3 * times));
        }
        for listed in listed(&pulse, Some("GET /{status}")).await.iter() {
            let status = listed.status.unwrap();
            let failure = Failure::new(format!("kind {status}"));
            let failure = failure.with_message(format_args!("of {status}"));
            assert_eq!(listed.failure, listed.is_error.then_some(failure));
        }
    }
}

#[tokio::test]
async fn no_message_is_listed_if_messages_are_turned_off() {
    let (pulse, _) = pulse_with(|builder| builder.failure_messages(false));
    send(&failing().layer(pulse.layer()), "GET", "/503").await;
    let failures = failures(&pulse, "GET /{status}").await;
    assert_eq!(failures, [Failure::new("kind 503")]);
}

#[tokio::test]
async fn each_response_counts_by_its_code() {
    let (pulse, _) = pulse();
    let handler = |Path(status): Path<u16>| async move {
        if status == 0 {
            std::future::pending::<()>().await;
        }
        StatusCode::from_u16(status).unwrap()
    };
    let app = Router::new()
        .route("/{status}", get(handler))
        .layer(pulse.layer());
    for status in [200, 200, 201, 204, 304, 401, 429, 429, 503, 999] {
        send(&app, "GET", &format!("/{status}")).await;
    }
    assert!(send(&app, "GET", "/0").now_or_never().is_none());
    let millis = Duration::from_millis(3);
    pulse.record("GET /{status}", millis, StatusCode::NOT_FOUND);
    let first = sums(&pulse, "GET /{status}").await;
    let (all, counts): (Vec<_>, Vec<_>) = codes(&first).into_iter().unzip();
    assert_eq!(all, [200, 201, 204, 304, 401, 404, 429, 503, 999]);
    assert_eq!(counts, [2, 1, 1, 1, 1, 1, 2, 1, 1]);
    // One request had no response.
    assert_eq!(first.codes.total() + 1, first.times.count);
    for status in 410..440 {
        send(&app, "GET", &format!("/{status}")).await;
    }
    let more = sums(&pulse, "GET /{status}").await;
    assert_eq!(more.codes.iter().len(), MAX_CODES);
    assert_eq!(more.codes.total() + 1, more.times.count);
}

#[tokio::test]
async fn a_failed_request_without_a_failure_of_its_own_has_the_last_failure_of_its_timers() {
    let (pulse, _) = pulse();
    let inner = pulse.clone();
    let handler = move |Path(case): Path<String>| {
        let pulse = inner.clone();
        async move {
            let failure = |error: &&'static str| Failure::new(*error).with_message("of a timer");
            for kind in ["connect", "db_timeout"] {
                let query = async move { Err::<(), &'static str>(kind) };
                let result = pulse.try_time_as("db", query, failure).await;
                assert_eq!(result, Err(kind));
            }
            let query = async { Ok::<_, &'static str>(7) };
            assert_eq!(pulse.try_time_as("db", query, failure).await, Ok(7));
            let mut response = match &*case {
                "ok" => StatusCode::OK.into_response(),
                _ => StatusCode::BAD_GATEWAY.into_response(),
            };
            if case == "own" {
                response.extensions_mut().insert(Failure::new("own"));
            }
            response
        }
    };
    let app = Router::new()
        .route("/{case}", get(handler))
        .layer(pulse.layer());
    for path in ["/own", "/ok", "/none"] {
        send(&app, "GET", path).await;
    }
    let requests = sums(&pulse, "GET /{case}").await;
    assert_eq!(kinds(&requests), [("db_timeout", 1), ("own", 1)]);
    let timer = sums(&pulse, "db").await;
    assert_eq!(kinds(&timer), [("connect", 3), ("db_timeout", 3)]);
    assert_eq!((timer.times.count, timer.outcomes.errors), (9, 6));
    assert!(timer.codes.is_empty());
    let mut failures = failures(&pulse, "GET /{case}").await;
    failures.sort_unstable();
    let of_timer = Failure::new("db_timeout").with_message("of a timer");
    assert_eq!(failures, [of_timer, Failure::new("own")]);
}

/// The line in which [`boom`] panics.
const LINE: u32 = line!() + 2;
fn boom() -> StatusCode {
    panic!("on purpose, in {}", file!())
}

#[tokio::test]
async fn a_panic_is_the_failure_of_its_request_and_the_earlier_hook_runs_too() {
    static HOOK_RUNS: AtomicUsize = AtomicUsize::new(0);
    let before = take_hook();
    set_hook(Box::new(move |info| {
        // Other tests panic too.
        let is_here = |at: &Location<'_>| (at.file(), at.line()) == (file!(), LINE);
        let is_here = info.location().is_some_and(is_here);
        HOOK_RUNS.fetch_add(usize::from(is_here), Ordering::Relaxed);
        before(info);
    }));
    let (pulse, _) = pulse_with(|builder| builder.record_panics());
    let (outer, _) = super::pulse();
    let inner = pulse.clone();
    // A panic of a spawned task is not the failure of the request.
    let spawning = move || {
        let pulse = inner.clone();
        async move {
            let task = tokio::spawn(pulse.within(async { boom() }));
            task.await.unwrap_err();
            StatusCode::BAD_GATEWAY
        }
    };
    let app = Router::new()
        .route("/caught", get(async || boom()))
        .layer(CatchPanicLayer::new())
        .route("/boom", get(async || boom()))
        .route("/spawns", get(spawning))
        .layer(pulse.layer())
        .layer(outer.layer());
    let task = tokio::spawn(app.clone().oneshot(request("GET", "/boom")));
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(send(&app, "GET", "/caught").await.status(), 500);
    catch_unwind(boom).unwrap_err();
    send(&app, "GET", "/spawns").await;

    let kind = format!("panic at {}:{LINE}", file!());
    let message = format!("on purpose, in {}", file!());
    for pulse in [&pulse, &outer] {
        for context in ["GET /boom", "GET /caught"] {
            let failure = Failure::new(kind.clone()).with_message(&message);
            assert_eq!(failures(pulse, context).await, [failure]);
            assert_eq!(kinds(&sums(pulse, context).await), [(&*kind, 1)]);
        }
        assert!(sums(pulse, "GET /spawns").await.kinds.is_empty());
    }
    assert_eq!(HOOK_RUNS.load(Ordering::Relaxed), 4);
}
