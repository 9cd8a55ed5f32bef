//! The requests of a surge.

use std::sync::Arc;

use super::{Sides, fails_more};
use crate::change::Suspect;
use crate::words::{instead, percent};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::escape_hidden;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::sorted::Map;

/// An instance with this many times an even share of the requests is named.
const UNEVEN: f64 = 1.5;

/// The latency is as before if the ratio of its 95th percentiles is within this range.
const ALIKE: std::ops::Range<f64> = 0.8..1.25;

/// The requests of a surge: which instances get them, and whether outcomes and latency are as before. `minutes` has the
/// sums of each instance in each minute since the surge began.
pub fn traffic(sides: &Sides, minutes: &[Vec<(&Arc<str>, &Aggregate)>]) -> Suspect {
    let mut counts: Map<&Arc<str>, u64> = Map::default();
    for (instance, sums) in minutes.iter().flatten() {
        *counts.or_insert_with(instance, || 0) += sums.times.count;
    }
    let (instances, all) = (counts.len(), counts.values().sum::<u64>());
    let most = counts.iter().max_by_key(|(_, count)| **count);
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let busiest = most.map(|(instance, count)| (*instance, share(*count, all)));
    let busiest = busiest.filter(|(_, share)| instances > 1 && share * instances as f64 >= UNEVEN);
    let mut parts = Vec::new();
    match busiest {
        Some((name, share)) => {
            let (name, share) = (escape_hidden(name), percent(share));
            parts.push(format!("{share} on {name}"));
        }
        None if instances > 1 => parts.push(format!("even on all {instances} instances")),
        None => {}
    }
    let failed = |name: &str, sums: &Aggregate| match name {
        "4xx" => sums.outcomes.count(Outcome::ClientError),
        _ => sums.outcomes.errors,
    };
    let more = ["errors", "4xx"].into_iter().filter_map(|name| {
        let [then, now] = [&sides.then, &sides.now].map(|all| (failed(name, all), all.times.count));
        let [before, after] = [then, now].map(|(failed, all)| percent(share(failed, all)));
        fails_more(now, then).then(|| format!("{after} {name} instead of {before}"))
    });
    let more: Vec<String> = more.collect();
    parts.push(match more.is_empty() {
        true => "outcomes as before".to_owned(),
        false => more.join(", "),
    });
    let p95 = |sums: &Aggregate| sums.successes().quantile(0.95);
    if let (Some(before), Some(after)) = (p95(&sides.then), p95(&sides.now)) {
        parts.push(match ALIKE.contains(&(after / before)) {
            true => "latency as before".to_owned(),
            false => format!("p95 {}", instead(after, "", before)),
        });
    }
    Suspect::Traffic {
        busiest: busiest.map(|(instance, _)| Arc::clone(instance)),
        text: parts.join("; ").into(),
    }
}
