//! Timers that fail, and the statuses of failed requests.

use std::sync::Arc;

use super::Sides;
use crate::change::Suspect;
use crate::words::percent;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::escape_hidden;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slow_request::SlowRequest;

/// The fewest samples on each side with which shares of errors are compared.
const MIN_SAMPLES: u64 = 10;

/// Samples fail more often than usual if the share of errors exceeds the usual share by this difference, by this factor
/// and by this number of standard errors. By chance alone, about one of a hundred comparisons finds this.
const ERRORS_BEYOND: f64 = 0.01;
const ERRORS_TIMES: f64 = 1.5;
const ERRORS_SURE: f64 = 3.0;

/// Whether samples fail more often than usual, beyond chance. Each pair has the number of errors and the number of all
/// samples. The second pair has the usual numbers.
pub fn fails_more((errors, count): (u64, u64), (old_errors, old_count): (u64, u64)) -> bool {
    if count.min(old_count) < MIN_SAMPLES {
        return false;
    }
    let (n, old_n) = (count as f64, old_count as f64);
    let (share, usual) = (errors as f64 / n, old_errors as f64 / old_n);
    let pooled = (errors as f64 + old_errors as f64) / (n + old_n);
    let deviation = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / old_n)).sqrt();
    share >= ERRORS_TIMES * usual && share - usual >= ERRORS_BEYOND.max(ERRORS_SURE * deviation)
}

/// The most statuses of failed requests that are named.
const MAX_STATUSES: usize = 3;

/// The timer that fails more often since a change, and the statuses of the newest failed requests. `timers` has the
/// runs of the timers within the requests.
pub fn failures(timers: &[(Arc<str>, Sides)], mut failed: Vec<SlowRequest>) -> Option<Suspect> {
    let errors = |of: &Aggregate| (of.outcomes.errors, of.times.count);
    let is_failing = |(_, of): &&(_, Sides)| fails_more(errors(&of.now), errors(&of.then));
    let share = |of: &Aggregate| of.outcomes.errors as f64 / of.times.count.max(1) as f64;
    let failing = timers.iter().filter(is_failing);
    let failing = failing.max_by(|(_, a), (_, b)| share(&a.now).total_cmp(&share(&b.now)));
    failed.order_by_key(|request| std::cmp::Reverse(request.ended));
    let mut statuses: Vec<Arc<str>> = Vec::new();
    for request in failed {
        let is_of_head = |status: &u16| Outcome::from_status(*status) == request.outcome;
        let status: Arc<str> = match request.status.filter(is_of_head) {
            Some(status) => status.to_string().into(),
            None => request.outcome.as_str().into(),
        };
        if statuses.len() < MAX_STATUSES && !statuses.contains(&status) {
            statuses.push(status);
        }
    }
    let of_timer = failing.map(|(timer, of)| {
        let name = escape_hidden(timer);
        let [then, now] = [&of.then, &of.now].map(|of| percent(share(of)));
        format!("{name}, which fails in {now} of its runs instead of {then}")
    });
    let newest = statuses.join(", ");
    let of_requests = (!newest.is_empty()).then(|| format!("its newest failures: {newest}"));
    let parts: Vec<String> = [of_timer, of_requests].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| Suspect::Failures {
        timer: failing.map(|(timer, _)| timer.clone()),
        statuses,
        text: parts.join("; ").into(),
    })
}
