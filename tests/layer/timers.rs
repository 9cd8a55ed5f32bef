//! Timers and counters of any code.

use std::convert::Infallible;
use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use http::{Request, Response};
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;

use crate::rig::reads::{StoreOf, StoreReads};

use super::{context, outcome, pulse, snapshot};

#[tokio::test]
async fn a_timer_writes_its_own_series_and_never_the_global_ones() {
    let (pulse, hand) = pulse();
    let timer = pulse.timer("db:find_user");
    hand.advance(Duration::from_millis(3));
    timer.stop();
    let mut failing = pulse.timer("db:find_user");
    failing.failed();
    hand.advance(Duration::from_millis(5));
    drop(failing);
    let find_user = context(&pulse, "db:find_user").await;
    assert_eq!(find_user.kind, Kind::Timer);
    let hour = find_user.hour.unwrap();
    assert_eq!((hour.times.count, hour.times.max), (2.0, 0.005));
    assert_eq!(hour.aggregate.outcomes.count(Outcome::Failed), 1);
    assert_eq!(hour.aggregate.outcomes.errors, 1);
    let store = pulse.backend();
    assert_eq!(store.counter("hits", 1).await.unwrap(), []);
    assert_eq!(store.counter("errors", 1).await.unwrap(), []);
    let hits = store.counter("hits:db:find_user", 3_600).await.unwrap();
    assert_eq!(hits[0].1, 2);
    assert_eq!(
        store.slowest_means().await.unwrap(),
        [("db:find_user".to_owned(), 0.004)]
    );
    assert_eq!(snapshot(&pulse).await.all.hour, None);
}

#[tokio::test]
async fn a_timer_that_is_named_like_a_page_is_not_added_to_the_page() {
    let (pulse, hand) = pulse();
    let page = "GET /users/{id}";
    let mut service = ServiceBuilder::new()
        .layer(pulse.layer_with(move |_| Some(page.into())))
        .service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(())) });
    let service = service.ready().await.unwrap();
    service.call(Request::new(())).await.unwrap();
    let timer = pulse.timer(page);
    hand.advance(Duration::from_millis(3));
    timer.stop();
    let contexts = snapshot(&pulse).await.contexts;
    let contexts = contexts.iter().map(|context| {
        let times = context.hour.as_ref().unwrap().times;
        (&*context.context, context.kind, times.count, times.max)
    });
    let contexts: Vec<_> = contexts.collect();
    assert_eq!(
        contexts,
        [
            ("GET /users/{id}", Kind::Http, 1.0, 0.0),
            ("\\GET /users/{id}", Kind::Timer, 1.0, 0.003),
        ]
    );
    let hits = pulse.backend().counter("hits:GET /users/{id}", 60).await;
    assert_eq!(hits.unwrap().iter().map(|(_, n)| n).sum::<i64>(), 1);
}

#[tokio::test]
async fn a_timed_future_can_complete_be_cancelled_or_panic() {
    let (pulse, _hand) = pulse();
    assert_eq!(pulse.time("done", async { 42 }).await, 42);
    {
        let mut waiting = Box::pin(pulse.time("cancelled", std::future::pending::<()>()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
    }
    drop(pulse.time("never polled", std::future::pending::<()>()));
    let boom = pulse.time("boom", async { panic!("on purpose") });
    tokio::spawn(boom).await.unwrap_err();
    assert_eq!(outcome(&pulse, "done", Outcome::Completed).await, (1, 0));
    assert_eq!(
        outcome(&pulse, "cancelled", Outcome::Cancelled).await,
        (1, 0)
    );
    assert_eq!(outcome(&pulse, "boom", Outcome::Panicked).await, (1, 1));
    assert_eq!(snapshot(&pulse).await.contexts.len(), 3);
}

#[tokio::test]
async fn a_timed_err_counts_as_failed() {
    let (pulse, _hand) = pulse();
    let answer = pulse.try_time("fine", async { Ok::<_, u8>(42) }).await;
    assert_eq!(answer, Ok(42));
    let answer = pulse.try_time("bad", async { Err::<u8, _>("no") }).await;
    assert_eq!(answer, Err("no"));
    assert_eq!(outcome(&pulse, "fine", Outcome::Completed).await, (1, 0));
    assert_eq!(outcome(&pulse, "bad", Outcome::Failed).await, (1, 1));
}

#[tokio::test]
async fn a_discarded_timer_records_nothing_and_a_given_duration_is_recorded() {
    let (pulse, _hand) = pulse();
    pulse.timer("cached").discard();
    assert_eq!(snapshot(&pulse).await.contexts, []);
    pulse.record_duration("queue", Duration::from_millis(12));
    let queue = context(&pulse, "queue").await;
    assert_eq!(queue.kind, Kind::Timer);
    assert_eq!(queue.hour.unwrap().times.max, 0.012);
    assert_eq!(pulse.health().recording.recorded, 1);
}

#[tokio::test]
async fn a_timer_records_a_panic() {
    let (pulse, _hand) = pulse();
    let inner = pulse.clone();
    let task = tokio::spawn(async move {
        let _timer = inner.timer("job");
        panic!("on purpose")
    });
    task.await.unwrap_err();
    assert_eq!(outcome(&pulse, "job", Outcome::Panicked).await, (1, 1));
}

#[tokio::test]
async fn counters_add_up_and_reserved_names_stay_apart() {
    let (pulse, _hand) = pulse();
    let sales = pulse.counter("sales");
    sales.add(3);
    pulse.counter("sales").add(4);
    sales.increment();
    sales.add(-2);
    pulse.counter("hits:GET /").add(5);
    pulse.flush().await.unwrap();
    let store = pulse.backend();
    for precision in [1, 5, 60, 300, 3_600, 18_000, 86_400] {
        assert_eq!(store.counter("sales", precision).await.unwrap()[0].1, 6);
    }
    assert_eq!(store.counter("hits:GET /", 1).await.unwrap(), []);
    assert_eq!(store.counter("\\hits:GET /", 1).await.unwrap()[0].1, 5);
    assert_eq!(pulse.try_counter("hits").unwrap_err().field(), "counter");
    assert!(pulse.try_counter("sales").is_ok());
}
