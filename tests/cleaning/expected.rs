//! What contexts with usual requests really allocate, against what the builder expects.

use std::time::Duration;

use http::StatusCode;
use tower_pulse::admin::Access;
use tower_pulse::query::{PathsQuery, Window};
use tower_pulse::{Clock, Pulse};
use tower_pulse_model::tier::TIERS;

use crate::fixture::THIS_HOUR;

const NOW: i64 = THIS_HOUR + 3_599;
/// Requests of a context in each minute that has any.
const REQUESTS: u64 = 20;

/// A minute of each slice of each tier, oldest first.
fn minutes() -> Vec<i64> {
    let starts = TIERS.iter().flat_map(|tier| {
        (0..i64::from(tier.retained)).map(move |n| tier.slice(NOW) - n * i64::from(tier.seconds))
    });
    let mut minutes: Vec<i64> = starts.collect();
    minutes.sort_unstable();
    minutes.dedup();
    minutes
}

/// Records usual requests in each slice that is kept, and asks for a page. Returns it all, so that it stays in memory.
async fn filled(contexts: usize) -> (Pulse, Vec<tower_pulse::Task>, axum::Router) {
    let (clock, time) = Clock::manual(NOW - 30 * 86_400);
    let (pulse, tasks) = Pulse::builder().clock(clock).build_with_tasks().unwrap();
    let router = pulse.router(Access::open());
    let mut random = fastrand::Rng::with_seed(7);
    for minute in minutes() {
        time.set_wall(minute);
        for context in 0..contexts {
            let name = format!("GET /section-{}/page-{context}/{{id}}", context % 7);
            for _ in 0..REQUESTS {
                let octaves = 2.0 * random.f64();
                let duration = Duration::from_secs_f64(0.02 * octaves.exp2());
                let status = match random.f64() < 0.01 {
                    true => StatusCode::INTERNAL_SERVER_ERROR,
                    false => StatusCode::OK,
                };
                pulse.record(&name, duration, status);
            }
        }
        pulse.simulation().drain();
        time.advance(Duration::from_secs(1));
        pulse.flush().await.unwrap();
    }
    let window: Window = "1h".parse().unwrap();
    let mut query = PathsQuery::default();
    query.window = window;
    let query_of = pulse.query();
    assert_eq!(query_of.paths(&query).await.unwrap().total, contexts);
    (pulse, tasks, router)
}

#[test]
fn what_is_expected_is_close_to_what_usual_contexts_take() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    let _entered = runtime.enter();
    drop(Pulse::builder().build_with_tasks());
    for contexts in [10, 50, 200] {
        let mut kept = None;
        let measured = allocation_counter::measure(|| {
            kept = Some(runtime.block_on(filled(contexts)));
        });
        let (pulse, ..) = kept.expect("it was filled");
        let expected = pulse.health().expected;
        assert_eq!(expected.contexts, contexts);
        let (real, expected) = (measured.bytes_current as f64, expected.process_bytes as f64);
        println!("{contexts} contexts: {real} bytes, expected {expected}");
        // Detection runs on another thread, and the cells of other cores are not there.
        let ratio = expected / real;
        assert!(
            (1.0..2.0).contains(&ratio),
            "{contexts} contexts: {ratio:.2} of the real"
        );
    }
}
