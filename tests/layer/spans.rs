//! Timers from spans and events of `tracing`, without databases. The events are like those of sqlx, and the spans like
//! those of `reqwest-tracing` and `#[instrument]`.

use std::time::Duration;

use futures_util::FutureExt;
use pulse_rig::log::Log;
use tower_pulse::tracing::SpanTimers;
use tower_pulse::{Condition, ManualClock, Pulse};
use tower_pulse_model::measures::Measure;
use tower_pulse_model::outcome::Outcome;
use tracing::dispatcher::DefaultGuard;
use tracing::field::Empty;
use tracing::{Instrument, Level, Span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

use super::request_timers::{advance, app, assert_no_request_left, assert_timers};
use super::{context, counts, pulse, pulse_with, send};

/// Sets a subscriber of this thread, with the layer of `pulse`, until the guard is dropped.
fn subscribe(pulse: &Pulse) -> DefaultGuard {
    tracing_subscriber::registry()
        .with(pulse.tracing())
        .set_default()
}

/// Reports a statement that has ended after `millis`.
fn report_ended(sql: &str, millis: u64) {
    let elapsed_secs = Duration::from_millis(millis).as_secs_f64();
    tracing::event!(
        target: "sqlx::query",
        Level::DEBUG,
        summary = sql,
        db.statement = "",
        rows_affected = 0u64,
        rows_returned = 1u64,
        elapsed_secs,
    );
}

fn run(manual_clock: &ManualClock, sql: &str, millis: u64) {
    advance(manual_clock, millis);
    report_ended(sql, millis);
}

fn client_span() -> Span {
    tracing::info_span!(
        "HTTP request",
        http.request.method = %"GET",
        server.address = %"api.example.com",
        otel.kind = "client",
        otel.status_code = Empty,
        error.message = Empty,
    )
}

#[tokio::test]
async fn statements_are_timers_of_their_request_and_overlaps_count_once() {
    let (pulse, manual_clock) = pulse();
    let _subscribed = subscribe(&pulse);
    let app = app(&pulse, &manual_clock, |pulse, manual_clock| async move {
        run(&manual_clock, "SELECT id FROM users", 3);
        for id in 0..100 {
            run(
                &manual_clock,
                &format!("SELECT * FROM orders WHERE id = {id}"),
                1,
            );
            tokio::task::yield_now().await;
            advance(&manual_clock, 1);
        }
        run(&manual_clock, "INSERT INTO visits VALUES (1)", 4);
        advance(&manual_clock, 1);
        pulse
            .time("render", async { advance(&manual_clock, 6) })
            .await;
        // This statement began 2 ms before the end of the insert.
        report_ended("SELECT 1 FROM tags", 9);
        "done"
    });
    for _ in 0..2 {
        send(&app, "GET", "/").await;
    }
    run(&manual_clock, "DELETE FROM visits", 5);
    let expected = [
        ("sql SELECT users", [2, 2, 6, 6]),
        ("sql SELECT orders", [200, 2, 200, 200]),
        ("sql INSERT visits", [2, 2, 8, 8]),
        ("render", [2, 2, 12, 12]),
        ("sql SELECT tags", [2, 2, 18, 18]),
    ];
    assert_timers(&pulse, "GET /", 2 * (3 + 100 + 4 + 7), expected).await;
    let outside = context(&pulse, "sql DELETE visits").await.hour.unwrap();
    assert_eq!((outside.times.count, outside.times.sum), (1.0, 0.005));
    assert_no_request_left(&pulse);
}

#[tokio::test]
async fn tasks_and_threads_that_take_over_the_span_belong_to_the_request() {
    let (pulse, manual_clock) = pulse();
    // Another layer enables all spans.
    let sink = tracing_subscriber::fmt::layer().with_writer(std::io::sink);
    let subscriber = tracing_subscriber::registry()
        .with(pulse.tracing())
        .with(sink);
    let _subscribed = subscriber.set_default();
    let app = app(&pulse, &manual_clock, |_, manual_clock| async move {
        let task = |manual_clock: ManualClock, sql: &'static str| async move {
            tokio::task::yield_now().await;
            run(&manual_clock, sql, 1);
        };
        for task in [
            task(manual_clock.clone(), "SELECT 1 FROM a").in_current_span(),
            task(manual_clock.clone(), "SELECT 1 FROM b").instrument(tracing::trace_span!("own")),
            task(manual_clock.clone(), "SELECT 1 FROM none").instrument(Span::none()),
        ] {
            tokio::spawn(task).await.unwrap();
        }
        // A thread of sqlx's SQLite enters the span in this way.
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let span = Span::current();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _subscribed = dispatch.set_default();
                span.in_scope(|| run(&manual_clock, "SELECT 1 FROM c", 1));
            });
        });
        "done"
    });
    send(&app, "GET", "/").await;
    let names = ["sql SELECT a", "sql SELECT b", "sql SELECT c"];
    let expected = names.map(|name| (name, [1; 4]));
    assert_timers(&pulse, "GET /", 3, expected).await;
    assert_eq!(counts(&pulse).await["sql SELECT none"], 1);
}

#[tokio::test]
async fn a_span_is_a_timer_until_it_ends_and_nested_calls_count_once() {
    let (pulse, manual_clock) = pulse();
    let _subscribed = subscribe(&pulse);
    let app = app(&pulse, &manual_clock, |_, manual_clock| async move {
        let call = async {
            advance(&manual_clock, 2);
            tokio::task::yield_now().await;
            // A retry has a span of the same name.
            async { advance(&manual_clock, 3) }
                .instrument(client_span())
                .await;
            Span::current().record("otel.status_code", "ERROR");
            Span::current().record("error.message", "no answer");
        };
        call.instrument(client_span()).await;
        let render = tracing::debug_span!("render", pulse.timer = Empty, otel.kind = "server");
        render.in_scope(|| advance(&manual_clock, 4));
        let named = tracing::debug_span!("pdf", pulse.timer = "invoice");
        named.in_scope(|| {
            advance(&manual_clock, 1);
            tracing::error!(error = %"no paper", "not printed");
        });
        // Both spans end here.
        drop((render, named));
        // No timers: a server's span, a span below DEBUG, and a span without the field `pulse.timer`.
        drop(tracing::info_span!("served", otel.kind = "server").entered());
        drop(tracing::trace_span!("traced", pulse.timer = true).entered());
        drop(tracing::info_span!("other").entered());
        "done"
    });
    let mut response = Box::pin(send(&app, "GET", "/"));
    assert!((&mut response).now_or_never().is_none());
    advance(&manual_clock, 10);
    response.await;
    let expected = [
        ("http GET api.example.com", [1, 1, 15, 15]),
        ("render", [1, 1, 5, 5]),
        ("invoice", [1, 1, 1, 1]),
    ];
    assert_timers(&pulse, "GET /", 20, expected).await;
    let http = context(&pulse, "http GET api.example.com").await;
    let http = http.hour.unwrap().aggregate;
    let measures = [Measure::PollTime, Measure::Waited, Measure::Polls];
    let measured = measures.map(|measure| http.measures.get(measure));
    assert_eq!(measured, [5_000_000, 10_000_000, 3]);
    assert_eq!(http.outcomes.count(Outcome::Failed), 1);
    let invoice = context(&pulse, "invoice").await.hour.unwrap().aggregate;
    assert_eq!(invoice.outcomes.errors, 1);
}

#[tokio::test]
async fn a_cancelled_request_has_its_statements_until_it_ends() {
    /// A statement that ends when it is dropped.
    struct Statement(ManualClock);
    impl Drop for Statement {
        fn drop(&mut self) {
            run(&self.0, "SELECT 1 FROM dropped", 3);
        }
    }
    let (pulse, manual_clock) = pulse();
    let _subscribed = subscribe(&pulse);
    let (sender, receiver) = std::sync::mpsc::channel();
    let app = app(&pulse, &manual_clock, move |_, manual_clock| {
        let sender = sender.clone();
        let waiting = async move {
            sender.send(Span::current()).unwrap();
            let _statement = Statement(manual_clock);
            std::future::pending::<&str>().await
        };
        // sqlx also runs and drops its statements within the span.
        waiting.in_current_span()
    });
    let mut response = Box::pin(send(&app, "GET", "/"));
    assert!((&mut response).now_or_never().is_none());
    advance(&manual_clock, 4);
    drop(response);
    assert_no_request_left(&pulse);
    advance(&manual_clock, 5);
    // The first statement began 5 ms before the end of the request, the second statement after this end.
    receiver.recv().unwrap().in_scope(|| {
        report_ended("SELECT 1 FROM late", 10);
        report_ended("SELECT 1 FROM late", 2);
    });
    let expected = [
        ("sql SELECT dropped", [1, 1, 3, 3]),
        ("sql SELECT late", [2, 1, 12, 5]),
    ];
    assert_timers(&pulse, "GET /", 5, expected).await;
}

#[tokio::test]
async fn span_timers_may_be_made_before_the_pulse_and_choose_spans_and_names() {
    let timers = SpanTimers::new()
        .spans(|span| span.target() == "cache")
        .name_by(|call| Some(format!("redis {}", call.text("cmd.name")?)));
    let subscriber = tracing_subscriber::registry().with(timers.layer());
    let _subscribed = subscriber.set_default();
    let (pulse, manual_clock) = pulse_with(|builder| builder.tracing(&timers));
    let app = app(&pulse, &manual_clock, |_, manual_clock| async move {
        for span in [
            tracing::debug_span!(target: "cache", "command", cmd.name = "GET"),
            tracing::debug_span!(target: "cache", "connect"),
            tracing::debug_span!(target: "other", "other", cmd.name = "GET"),
        ] {
            async { advance(&manual_clock, 1) }.instrument(span).await;
        }
        run(&manual_clock, "SELECT 1 FROM a", 1);
        "done"
    });
    send(&app, "GET", "/").await;
    let expected = [
        ("redis GET", [1, 1, 1, 1]),
        ("connect", [1, 1, 1, 1]),
        ("sql SELECT a", [1, 1, 1, 1]),
    ];
    assert_timers(&pulse, "GET /", 3, expected).await;
}

#[tokio::test]
async fn the_log_of_another_layer_stays_as_it_is() {
    let (pulse, manual_clock) = pulse();
    let log = |has_layer: bool| {
        let (log, pulse) = (Log::default(), pulse.clone());
        let app = app(&pulse, &manual_clock, |_, manual_clock| async move {
            run(&manual_clock, "SELECT 1 FROM a", 1);
            let _client = client_span().entered();
            tracing::info!("hello");
            tracing::error!(error = %"x", "failed");
            tracing::debug!("hidden");
            "done"
        });
        async move {
            let writer = log.clone();
            let lines = tracing_subscriber::fmt::layer()
                .without_time()
                .with_ansi(false)
                .with_writer(move || writer.clone())
                .with_filter(LevelFilter::INFO);
            let layer = has_layer.then(|| pulse.tracing());
            let subscriber = tracing_subscriber::registry().with(layer).with(lines);
            let subscribed = subscriber.set_default();
            send(&app, "GET", "/").await;
            // Health asks the filters whether they hide statements.
            assert!(pulse.health().conditions.is_empty());
            tracing::error!(error = %"y", "failed");
            drop(subscribed);
            log.text()
        }
    };
    let without = log(false).await;
    assert_eq!(without.lines().count(), 3, "{without}");
    assert_eq!(log(true).await, without);
}

#[tokio::test]
async fn health_warns_that_a_filter_hides_statements() {
    let is_hidden = |pulse: &Pulse| {
        let conditions = pulse.health().conditions;
        conditions.contains(&Condition::HiddenStatements)
    };
    let (registry, filter) = (tracing_subscriber::registry, LevelFilter::INFO);
    // The event in `report_ended` counts as a statement of sqlx.
    let (inside, _) = pulse();
    let subscriber = registry().with(filter).with(inside.tracing());
    let _subscribed = subscriber.set_default();
    report_ended("SELECT 1 FROM a", 1);
    assert!(is_hidden(&inside), "with the filter first");
    assert!(!is_hidden(&pulse().0), "without a layer");
    let (outside, _) = pulse();
    let subscriber = registry().with(outside.tracing()).with(filter);
    let _subscribed = subscriber.set_default();
    assert!(is_hidden(&outside), "with the filter last");
    let unwanted = SpanTimers::new().statements(false);
    let (off, _) = pulse_with(|builder| builder.tracing(&unwanted));
    let subscriber = registry().with(filter).with(unwanted.layer());
    let _subscribed = subscriber.set_default();
    assert!(!is_hidden(&off), "without timers of statements");
    let (seen, _) = pulse();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::sink);
    let subscriber = registry().with(seen.tracing());
    let _subscribed = subscriber.with(lines.with_filter(filter)).set_default();
    assert!(!is_hidden(&seen), "before its first statement");
    report_ended("SELECT 1 FROM a", 1);
    assert!(!is_hidden(&seen), "after its first statement");
    assert_eq!(counts(&seen).await["sql SELECT a"], 1);
}
