//! Tests of draining: the second of a sample, lag, pressure, totals, and names beyond the maximum.

use std::time::Duration;

use futures_util::FutureExt;

use super::*;
use crate::recorder::tests::{COUNTERS, NOW, TestRecorder, spec};
use crate::recorder::{RequestDetails, RequestOutcome};
use crate::targets::PathTarget;
use crate::task::Stop;
use tower_pulse_model::outcome::Outcome;

fn record(recorder: &Recorder, path: &str) {
    let handle = recorder.context(Kind::Http, path);
    handle.record_measured(Duration::from_millis(3), Outcome::Success);
}

#[test]
fn a_sample_belongs_to_the_second_in_which_it_finished() {
    let at = |seconds: f64| (seconds * 1e9) as i64;
    assert_eq!(second_of(at(10.0), at(10.7)), 10);
    assert_eq!(second_of(at(10.7), at(11.001)), 10);
    assert_eq!(second_of(at(10.001), at(12.4)), 11);
    assert_eq!(second_of(at(10.5), at(7.2)), 7);
}

#[test]
fn the_lag_of_a_drain_is_its_delay_after_the_start_of_a_second() {
    let recorder = TestRecorder::new(9);
    let lags = |millis| {
        recorder.advance(millis);
        recorder.drain();
        let lags = |counters: &mut FlushCounters| (counters.lag, counters.max_lag);
        let (lag, max_lag) = recorder.drain.counters(lags);
        (lag as f64 / 1e9, max_lag as f64 / 1e9)
    };
    assert_eq!(lags(900), (0.0, 0.0), "no second has ended");
    assert_eq!(lags(350), (0.25, 0.25));
    assert_eq!(lags(500), (0.25, 0.25));
    assert_eq!(lags(375), (0.125, 0.25));
}

#[test]
fn totals_since_the_start_have_exemplars_and_the_counts_of_a_target() {
    let recorder = TestRecorder::with_limits(Limits {
        targets: vec![PathTarget::new("GET /", Duration::from_millis(400), 0.9)],
        ..Limits::new(9, COUNTERS)
    });
    let finish = |context: &str, millis, status: u16, trace_id| {
        let handle = recorder.context(Kind::Http, context);
        let start = handle.recording().clock().tick();
        handle.recording().request_started(0);
        recorder.advance(millis);
        let status = http::StatusCode::from_u16(status).expect("a status");
        let ended = RequestOutcome::from(status).ended(None);
        let polls = crate::recorder::RequestPolls::new(start);
        let details = RequestDetails {
            trace_id,
            ..RequestDetails::default()
        };
        handle.finish_request(start, ended, &polls, &details);
    };
    finish("GET /", 60, 200, Some("fast"));
    recorder.drained();
    finish("GET /", 80, 502, Some("failed"));
    finish("GET /", 800, 200, None);
    finish("GET /", 70, 404, None);
    finish("GET /other", 70, 200, None);
    recorder.drain();

    let totals: HashMap<_, _> = recorder.drain.totals().into_iter().collect();
    assert_eq!(totals["GET /"].count, 4);
    let target = totals["GET /"].target.expect("a target");
    // The 502 and the request of 800 ms are bad. The 404 is not counted.
    assert_eq!((target.counted, target.bad), (3, 2));
    let exemplars = totals["GET /"].exemplars.as_ref().expect("exemplars");
    let ids = |buckets| exemplars.newest(buckets).map(|e| &*e.trace_id);
    assert_eq!((ids(6..=6), ids(7..=7)), (Some("fast"), Some("failed")));
    assert_eq!(ids(8..=17), None, "the slow one has no trace id");
    assert_eq!(exemplars.error().map(|e| e.ended), Some(1_000 * NOW + 140));
    assert_eq!(totals["GET /other"].target, None);
    assert_eq!(totals["GET /other"].exemplars, None);
}

#[cfg(feature = "query")]
#[test]
fn counter_totals_include_additions_that_are_not_drained() {
    let recorder = TestRecorder::new(9);
    assert_eq!(recorder.counter_totals(), HashMap::new());
    for _ in 0..2 {
        recorder.counter("sales").add(3);
        recorder.drained();
    }
    recorder.counter("sales").add(-10);
    recorder.counter("refunds");
    let totals = HashMap::from([("refunds".into(), 0), ("sales".into(), -4)]);
    assert_eq!(recorder.counter_totals(), totals);
    (0..COUNTERS).for_each(|number| recorder.counter(&number.to_string()).increment());
    // Two names beyond the maximum share the overflow counter.
    assert_eq!(recorder.counter_totals().get(OVERFLOW), Some(&2));
}

#[test]
fn only_names_beyond_the_maximum_overflow() {
    let recorder = TestRecorder::new(1);
    for number in 0..COUNTERS {
        let counter = recorder.counter(&format!("counter {number}"));
        assert_eq!(counter.name(), format!("counter {number}"));
    }
    record(&recorder, "GET /");
    // A user's counter may have the name of the overflow counter.
    assert_eq!(recorder.counter(OVERFLOW).name(), OVERFLOW);
    assert_eq!(recorder.recording.overflows(), (false, false));
    assert_eq!(recorder.counter("one more").name(), OVERFLOW);
    assert_eq!(recorder.recording.overflows(), (false, true));
    record(&recorder, "GET /a");
    assert_eq!(recorder.recording.overflows(), (true, true));
}

#[tokio::test]
async fn many_ids_of_a_ranking_start_a_flush_early() {
    let recorder = TestRecorder::new(9);
    let pressed = || {
        recorder.drained();
        let pressed = recorder.drain.pressure.notified().now_or_never();
        pressed.is_some()
    };
    for max_ids in [10, 3_000] {
        let ranking = recorder.ranking(&max_ids.to_string(), spec(max_ids));
        let ranking = ranking.expect("there is none of this name");
        for (ids, is_pressed) in [(1_499, false), (1_500, max_ids == 3_000)] {
            (0..ids).for_each(|id| ranking.add(&id.to_string(), 1));
            assert_eq!(pressed(), is_pressed, "{ids} of {max_ids} ids");
        }
    }
    (0..COUNTERS).for_each(|name| recorder.counter(&name.to_string()).increment());
    assert!(!pressed(), "max_counters bounds counters");
}

#[tokio::test]
async fn samples_are_drained_at_the_start_of_each_second() {
    let recorder = TestRecorder::new(9);
    recorder.advance(300);
    let (stop, stopped) = Stop::new();
    let draining = tokio::spawn(stopped.run(Box::pin(recorder.clone().drain_each_second())));
    for (millis, pending) in [(699, 0), (1, 2), (999, 0), (1, 2)] {
        record(&recorder, "GET /");
        tokio::task::yield_now().await;
        recorder.advance(millis);
        tokio::task::yield_now().await;
        assert_eq!(recorder.drain.take().len(), pending, "after {millis} ms");
    }
    stop.stop();
    draining.await.expect("it ends");
}

#[test]
fn pending_and_taken_marks_are_bounded_together() {
    let recorder = TestRecorder::new(9);
    let add = |number: usize| {
        let mark = Mark::of_text(number.to_string(), NOW, "deploy").expect("it is short");
        recorder.add_mark(mark)
    };
    (0..60).for_each(|number| add(number).expect("there is room"));
    let taken = recorder.drain.take();
    assert_eq!(taken.marks.len(), 60);
    (60..100).for_each(|number| add(number).expect("there is room"));
    let error = add(100).expect_err("the taken marks still wait");
    assert!(error.to_string().contains("100 marks wait"), "{error}");
    add(99).expect("the mark waits already");
    recorder.put_back(taken);
    assert_eq!(recorder.drain.pending_amounts().details, 100);
    assert!(add(100).is_err());

    assert_eq!(recorder.drain.take().marks.len(), 100);
    assert!(add(100).is_err());
    recorder.drain.note_all_sent();
    add(100).expect("the store has the other marks");
    recorder.recording.close();
    let error = add(100).expect_err("no flush would send it");
    assert!(error.to_string().contains("shutdown"), "{error}");
}
