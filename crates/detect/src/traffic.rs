//! Surges and silence: whether a page has many more requests than in its past, or none.
//!
//! Counts per minute are Poisson with overdispersion: their variance is a multiple of their mean, estimated from the
//! page's past. Square roots of such counts have a constant variance (Anscombe, *The transformation of Poisson,
//! binomial and negative-binomial data*, 1948).

use super::history::{History, STORED, Span, Tick, is_in};
use super::state::{SharedMinute, SharedMinutes};
use super::statistics::{lower_mean, turning_point};

/// A minute, and its number of requests.
type Count = (Tick, f64);

pub(crate) struct Traffic {
    /// The requests in each judged minute since the start of the page's history.
    counts: Vec<Count>,
    /// The number of minutes that belong to the past.
    past: usize,
    /// Requests per minute in the past.
    pub(crate) rate: f64,
    /// The variance of a count, divided by its mean.
    dispersion: f64,
}

/// Minutes between the past and now, for an old page and for a young one.
const PAST_ENDS: usize = 21;
const YOUNG_PAST_ENDS: usize = 10;
const FEWEST_MINUTES: usize = 20;

impl Traffic {
    /// The traffic of a page; `None` if its past is too short. Minutes in `excluded` are not part of the past.
    pub(crate) fn of(
        history: &History,
        shared: &SharedMinutes,
        now: Tick,
        excluded: &[Span],
    ) -> Option<Self> {
        let oldest = history.minutes.front()?.tick.max(now - STORED + 1);
        let counts = requests(history, shared.within(oldest..now + 1));
        let past = match counts.len() {
            0..=50 => counts.len().saturating_sub(YOUNG_PAST_ENDS),
            length => length - PAST_ENDS,
        };
        let quiet = counts[..past].iter();
        let quiet = quiet.filter(|(tick, _)| !is_in(excluded, *tick));
        let mut quiet: Vec<_> = quiet.map(|(_, count)| *count).collect();
        if quiet.len() < FEWEST_MINUTES {
            return None;
        }
        let mean = quiet.iter().sum::<f64>() / quiet.len() as f64;
        quiet.sort_unstable_by(f64::total_cmp);
        let median = quiet[quiet.len() / 2];
        let rate = if median >= 4.0 { median } else { mean };
        // Bursts are not part of the usual noise, so only the lower 95 % count.
        let usual = &quiet[..quiet.len() - quiet.len() / 20];
        let squares: f64 = usual.iter().map(|count| (count - rate).powi(2)).sum();
        let dispersion = squares / usual.len() as f64 / rate.max(0.1);
        Some(Self {
            counts,
            past,
            rate,
            dispersion: dispersion.clamp(1.0, 1e6),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrafficChange {
    pub(crate) since: Tick,
    pub(crate) strength: f64,
    /// Requests per minute.
    pub(crate) now: f64,
}

/// The standard deviations that a surge needs.
const SURGE_BAR: f64 = 5.5;
const SHORTEST_SURGE: usize = 3;
/// The required logarithm of the likelihood ratio, without the two largest minutes.
const EVIDENCE: f64 = 4.0;
/// The smallest ratio of a surge to the expected traffic: for the mean, and for the mean without the largest minute.
const LEAST_SURGE: f64 = 2.6;
const LEAST_LOWER: f64 = 2.2;

/// Searches for a surge that goes on, and is larger than any surge of the same length in the past.
pub(crate) fn surge(
    traffic: &Traffic,
    shared: &SharedMinutes,
    after: Tick,
) -> Option<TrafficChange> {
    let past = &traffic.counts[..traffic.past];
    let since = |tick: Tick| traffic.counts.partition_point(|(at, _)| *at < tick);
    let recent = traffic.counts.len() - traffic.past.max(since(after.saturating_add(1)));
    let lower_mean = |minutes: &[Count]| lower_mean(minutes.iter().map(|(_, count)| *count));
    let mut best: Option<TrafficChange> = None;
    for length in SHORTEST_SURGE..=recent.min(20) {
        let window = &traffic.counts[traffic.counts.len() - length..];
        let all = window
            .iter()
            .map(|(tick, _)| shared.traffic(*tick).max(0.0).exp());
        let all: f64 = all.sum();
        let expected = traffic.rate * all;
        let sum: f64 = window.iter().map(|(_, count)| count).sum();
        let strength = 2.0 * (sum.sqrt() - expected.sqrt()) / traffic.dispersion.sqrt();
        let scale = all / length as f64 * traffic.rate;
        let mean = sum / length as f64;
        let lower = lower_mean(window);
        if strength < SURGE_BAR || mean < LEAST_SURGE * scale || lower < LEAST_LOWER * scale {
            continue;
        }
        if !goes_on(window, scale, mean, traffic.dispersion) {
            continue;
        }
        let usual = past.windows(length).map(lower_mean).fold(0.0, f64::max);
        if lower >= 1.3 * usual && best.is_none_or(|best| best.strength < strength) {
            best = Some(TrafficChange {
                since: window[0].0,
                strength,
                now: mean,
            });
        }
    }
    let mut best = best?;
    // A surge begins where the requests begin to exceed the geometric mean of the usual rate and the rate of the surge.
    let between = (traffic.rate * best.now).sqrt();
    let recent = traffic.counts[traffic.past..].iter().rev();
    best.since = turning_point(recent.map(|(tick, count)| (*tick, count - between)));
    (traffic.counts.len() - since(best.since) >= SHORTEST_SURGE).then_some(best)
}

/// Whether a surge shows in the last minute alone, and also in the window without its two largest minutes, by the
/// likelihood ratio of Poisson counts.
fn goes_on(window: &[Count], then: f64, now: f64, dispersion: f64) -> bool {
    let evidence = |count: f64, minutes: f64| {
        (count * (now / then.max(1e-3)).ln() - minutes * (now - then)) / dispersion
    };
    let mut counts: Vec<_> = window.iter().map(|(_, count)| *count).collect();
    let last = counts[counts.len() - 1];
    counts.sort_unstable_by(f64::total_cmp);
    let without_largest = &counts[..counts.len() - 2.min(counts.len() - 1)];
    evidence(last, 1.0) > 0.0
        && evidence(without_largest.iter().sum(), without_largest.len() as f64) >= EVIDENCE
}

/// Whether a surge from `then` to `now` requests per minute has ended in these minutes.
pub(crate) fn surge_is_over(last: &[Count], then: f64, now: f64) -> bool {
    let mean = last.iter().map(|(_, count)| count).sum::<f64>() / last.len().max(1) as f64;
    mean < then + 0.45 * (now - then)
}

/// The missing requests that a silence needs, divided by the square root of the dispersion.
const SILENCE_BAR: f64 = 25.0;
const SHORTEST_SILENCE: usize = 3;

/// Searches for a silence: longer than chance allows, and at least three times as long as any before.
pub(crate) fn silence(traffic: &Traffic) -> Option<TrafficChange> {
    let last = traffic.counts.iter().rposition(|(_, count)| *count > 0.0)?;
    let silent = traffic.counts.len() - 1 - last;
    if silent < SHORTEST_SILENCE || last < traffic.past {
        return None;
    }
    let before = &traffic.counts[traffic.past..=last];
    // A page that fades does not fall silent: the minutes before a silence must have nearly the usual traffic.
    let tail = &before[before.len().saturating_sub(10)..];
    let lately = tail.iter().map(|(_, count)| count).sum::<f64>() / tail.len().max(1) as f64;
    if lately < 0.4 * traffic.rate {
        return None;
    }
    let expected = silent as f64 * lately.min(traffic.rate);
    let silences = traffic.counts[..=last].split(|(_, count)| *count > 0.0);
    let longest = silences.map(<[_]>::len).max().unwrap_or(0);
    if expected < SILENCE_BAR * traffic.dispersion.sqrt() || silent < 3 * longest {
        return None;
    }
    Some(TrafficChange {
        since: traffic.counts[last + 1].0,
        strength: (2.0 * expected / traffic.dispersion).sqrt(),
        now: 0.0,
    })
}

/// The requests of the last judged minutes.
pub(crate) fn recent(history: &History, shared: &SharedMinutes, last: usize) -> Vec<Count> {
    let judged = &shared.0[shared.0.len().saturating_sub(last)..];
    requests(history, judged.iter())
}

fn requests<'a>(history: &History, judged: impl Iterator<Item = &'a SharedMinute>) -> Vec<Count> {
    let mut seen = history.minutes.iter().peekable();
    let count = |SharedMinute { tick, .. }: &SharedMinute| {
        while seen.next_if(|minute| minute.tick < *tick).is_some() {}
        let minute = seen.next_if(|minute| minute.tick == *tick);
        (*tick, minute.map_or(0.0, |minute| minute.requests.into()))
    };
    judged.map(count).collect()
}

#[cfg(test)]
mod tests;
