//! The longest poll of a window that moves on, how long requests compute and wait in it, and the order by these, against
//! a plain list of all requests.

use std::time::Duration;

use tower_pulse::Pulse;
use tower_pulse::query::{PathsQuery, SeriesMetric, SeriesQuery, SeriesValue, Sort, Window};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;

use crate::fixture::Fixture;
use crate::measures::polled;
use crate::rig::seed::seed;

const CONTEXTS: usize = 3;

/// A request: when, of which context, its polls in milliseconds, and how long it waited.
struct Served {
    second: i64,
    context: usize,
    polls: Vec<u64>,
    waited: u64,
}

fn near(found: Option<f64>, expected: f64, what: &str) {
    let found = found.unwrap_or_else(|| panic!("there is no {what}"));
    let error = (found - expected).abs();
    assert!(error < 1e-9, "{what}: {found} instead of {expected}");
}

async fn windows_know_their_longest_poll(mut fixture: Fixture, minutes: usize) {
    let mut rng = fastrand::Rng::with_seed(seed());
    let builder = Pulse::builder().store(fixture.store.clone());
    let (pulse, _tasks) = builder
        .clock(fixture.clock.clone())
        .build_with_tasks()
        .unwrap();
    let mut all: Vec<Served> = Vec::new();
    let mut moved_on = 0;
    for minute in 0..minutes {
        let mut batch = Batch::new(fixture.precisions.clone());
        for context in 0..CONTEXTS {
            let polls: Vec<u64> = (0..rng.usize(1..5)).map(|_| rng.u64(1..200)).collect();
            let (second, waited) = (fixture.clock.now_seconds(), rng.u64(0..300));
            let request = polled(&polls, waited);
            batch.add(
                &format!("GET /{context}").into(),
                Kind::Http,
                second,
                &request,
            );
            all.push(Served {
                second,
                context,
                polls,
                waited,
            });
        }
        fixture.merge_clean(batch).await;
        for sort in [Sort::LongestPoll, Sort::Computing, Sort::Waiting] {
            let mut query = PathsQuery::default();
            query.window = "5m".parse::<Window>().unwrap();
            query.sort = sort;
            let answer = pulse.query().ask(&query).await.unwrap();
            let within = |context: usize, from: i64, to: i64| {
                let of = all.iter().filter(move |served| served.context == context);
                of.filter(move |served| (from..to).contains(&served.second))
            };
            let mut keys = Vec::new();
            for row in &answer.paths {
                let context = row.name.context["GET /".len()..].parse().unwrap();
                let (count, computed, waited, longest) =
                    within(context, answer.now.from, answer.now.to).fold(
                        (0, 0, 0, 0),
                        |(count, computed, waited, longest), served| {
                            (
                                count + served.polls.len(),
                                computed + served.polls.iter().sum::<u64>(),
                                waited + served.waited,
                                served.polls.iter().copied().fold(longest, u64::max),
                            )
                        },
                    );
                let requests = row.now.count as f64;
                let polls = row.now.polls.unwrap();
                near(
                    polls.computing,
                    computed as f64 / 1e3 / requests,
                    "computing",
                );
                near(polls.waiting, waited as f64 / 1e3 / requests, "waiting");
                near(polls.longest, longest as f64 / 1e3, "the longest poll");
                near(
                    Some(polls.mean),
                    computed as f64 / 1e3 / count as f64,
                    "mean",
                );
                keys.push(match sort {
                    Sort::LongestPoll => polls.longest,
                    Sort::Computing => polls.computing,
                    _ => polls.waiting,
                });
                // The window before knows its longest poll, or says that it does not.
                let before = row.before.as_ref().and_then(|before| before.polls);
                if let Some(longest) = before.and_then(|polls| polls.longest) {
                    let of = within(context, answer.before.from, answer.before.to);
                    let expected = of.flat_map(|served| served.polls.iter()).max().unwrap();
                    near(
                        Some(longest),
                        *expected as f64 / 1e3,
                        "the longest poll before",
                    );
                } else if before.is_some() {
                    moved_on += 1;
                }
            }
            assert_eq!(keys.len(), CONTEXTS);
            assert!(
                keys.is_sorted_by(|a, b| a >= b),
                "{sort:?} in minute {minute}: {keys:?}"
            );
        }
        fixture.manual_clock.advance(Duration::from_secs(60));
    }
    assert!(moved_on > 0, "no slice has left the window before");
    let mut query = SeriesQuery::default();
    query.context = Some("GET /0".to_owned());
    query.metric = SeriesMetric::LongestPoll;
    let series = pulse.query().ask(&query).await.unwrap();
    let of = all.iter().filter(|served| served.context == 0);
    let expected: Vec<u64> = of.filter_map(|of| of.polls.iter().copied().max()).collect();
    assert_eq!(series.points.len(), expected.len());
    for ((_, value), expected) in series.points.iter().zip(expected) {
        let SeriesValue::Number(found) = value else {
            panic!("{value:?}");
        };
        near(*found, expected as f64 / 1e3, "the longest poll of a slice");
    }
}

in_both!(windows_know_their_longest_poll(30, 20));
