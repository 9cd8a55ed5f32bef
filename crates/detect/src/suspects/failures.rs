//! Timers, status codes and kinds of errors that failures come from, and the statuses of failed requests.

use std::sync::Arc;

use super::Sides;
use crate::change::{ChangeKind, Suspect};
use crate::minute;
use crate::words::percent;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::escape_hidden;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slow_request::SlowRequest;
use tower_pulse_model::tally::Tally;

/// Shares of errors are compared if each side has at least this number of samples.
const MIN_SAMPLES: u64 = 10;

/// Samples fail more often than usual if the share of errors exceeds the usual share by `ERRORS_BEYOND`, by the factor
/// `ERRORS_TIMES`, and by `ERRORS_SURE` standard errors.
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

/// The smallest part of the additional failures that a status code, or a kind of error, must have to be named.
const MIN_OF_CODE: f64 = 0.8;
const MIN_OF_KIND: f64 = 0.5;

/// The code or the kind of error whose share of a page's requests has risen most, with the shares before a change and
/// since; `None` if the share has risen by less than `least`.
fn risen<K: Ord + Clone + ToString>(
    page: &Sides,
    counts: fn(&Aggregate) -> &Tally<K>,
    is_wanted: fn(&K) -> bool,
    least: f64,
) -> Option<(Arc<str>, String, String)> {
    let share =
        |sums: &Aggregate, key: &K| counts(sums).get(key) as f64 / sums.times.count.max(1) as f64;
    let keys = counts(&page.now).iter().map(|(key, _)| key);
    let shares = keys.filter(|key| is_wanted(key));
    let shares = shares.map(|key| (share(&page.then, key), share(&page.now, key), key));
    let (then, now, key) = shares.max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))?;
    (least > 0.0 && now - then >= least)
        .then(|| (key.to_string().into(), percent(then), percent(now)))
}

/// The causes of a page's failures since a change: the kind of error and the status code that are more frequent, and
/// the timer that fails more often. The suspect also has the statuses of the newest failed requests. `timers` has the
/// runs of the timers within the requests.
pub fn failures(
    kind: ChangeKind,
    page: &Sides,
    timers: &[(Arc<str>, Sides)],
    mut failed: Vec<SlowRequest>,
) -> Option<Suspect> {
    let share = |all: &Aggregate| minute::failed(kind, all) as f64 / all.times.count.max(1) as f64;
    let rise = share(&page.now) - share(&page.then);
    let code = |is_wanted| risen(page, |sums| &sums.codes, is_wanted, MIN_OF_CODE * rise);
    let is_refused = |code: &u16| (400..500).contains(code);
    let code = match kind {
        ChangeKind::Refusing => code(is_refused),
        // The application may count some 4xx as errors.
        _ => code(|code| *code >= 500).or_else(|| code(is_refused)),
    };
    let error = risen(page, |sums| &sums.kinds, |_| true, MIN_OF_KIND * rise);
    let errors = |sums: &Aggregate| (sums.outcomes.errors, sums.times.count);
    let is_failing = |(_, sides): &&(_, Sides)| fails_more(errors(&sides.now), errors(&sides.then));
    let share = |sums: &Aggregate| sums.outcomes.errors as f64 / sums.times.count.max(1) as f64;
    let failing = timers.iter().filter(is_failing);
    let failing = failing.max_by(|(_, a), (_, b)| share(&a.now).total_cmp(&share(&b.now)));
    failed.order_by_key(|request| std::cmp::Reverse(request.ended));
    let mut statuses: Vec<Arc<str>> = Vec::new();
    for request in failed {
        let gave_outcome = |status: &u16| Outcome::from_status(*status) == request.outcome;
        let status: Arc<str> = match request.status.filter(gave_outcome) {
            Some(status) => status.to_string().into(),
            None => request.outcome.as_str().into(),
        };
        if statuses.len() < MAX_STATUSES && !statuses.contains(&status) {
            statuses.push(status);
        }
    }
    let of_timer = failing.map(|(timer, sides)| {
        let name = escape_hidden(timer);
        let [then, now] = [&sides.then, &sides.now].map(|sums| percent(share(sums)));
        format!("{name}, which fails in {now} of its runs instead of {then}")
    });
    let of_kind = error.as_ref().map(|(error, then, now)| {
        let error = escape_hidden(error);
        format!("{error} in {now} of requests instead of {then}")
    });
    let of_code = code.as_ref();
    let of_code = of_code.map(|(code, then, now)| format!("{code} rose from {then} to {now}"));
    let newest = statuses.join(", ");
    let has_cause = of_kind.is_some() || of_code.is_some();
    let of_requests = (!newest.is_empty() && !has_cause).then(|| format!("failures with {newest}"));
    let parts = [of_kind, of_timer, of_code, of_requests];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| Suspect::Failures {
        timer: failing.map(|(timer, _)| timer.clone()),
        statuses,
        code: code.map(|(code, ..)| code),
        error: error.map(|(error, ..)| error),
        text: parts.join("; ").into(),
    })
}
