//! Failing and refusing: whether the share of a page's requests that are errors, or 4xx, is larger than in its past.
//!
//! The shares of two binomials are compared by the likelihood ratio (Wilks, 1938), which is valid for rare and frequent
//! errors, and for a past without errors. Errors come in clusters, so the statistic is divided by the overdispersion of
//! the past (McCullagh and Nelder, *Generalized Linear Models*, 1989, 4.5).

use super::change::ChangeKind;
use super::history::{Minutes, PageMinute, Span, Tick, is_in};
use super::past::{FEWEST_MINUTES, FEWEST_REQUESTS, PAST_ENDS, YOUNG_PAST_ENDS};
use super::statistics::turning_point;
use tower_pulse_model::order::InOrder;

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    errors: f64,
    requests: f64,
}

impl Share {
    fn of(minutes: &[&PageMinute]) -> Self {
        let mut share = Self::default();
        minutes.iter().for_each(|minute| share.add(minute));
        share
    }

    fn add(&mut self, minute: &PageMinute) {
        self.errors += f64::from(minute.errors);
        self.requests += f64::from(minute.requests);
    }

    fn share(self) -> f64 {
        self.errors / self.requests.max(1.0)
    }

    /// The logarithm of the likelihood of these counts if the share is `p`.
    fn likelihood(self, p: f64) -> f64 {
        let term = |count: f64, p: f64| match count > 0.0 {
            true => count * p.max(1e-12).ln(),
            false => 0.0,
        };
        term(self.errors, p) + term(self.requests - self.errors, 1.0 - p)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Increase {
    pub(crate) since: Tick,
    pub(crate) strength: f64,
    /// The share of errors before the increase.
    pub(crate) then: f64,
}

/// The fewest minutes of an increase.
const MIN_MINUTES: usize = 3;
/// The most minutes that are searched for the beginning of an increase.
const MAX_MINUTES: usize = 20;
/// The least strength of an increase that is reported, and the least difference of the shares of errors.
const FAILING: (f64, f64) = (5.5, 0.01);
/// The same for refusing. Clients cause 4xx, so the share of 4xx varies more.
const REFUSING: (f64, f64) = (7.0, 0.05);
/// The required logarithm of the likelihood ratio, without the two worst minutes.
const EVIDENCE: f64 = 3.0;
/// The weight of the usual dispersion, in minutes.
const USUAL_MINUTES: f64 = 10.0;
const USUAL_DISPERSION: f64 = 1.3;

/// Searches for an increase that is present at the end of minute `now`, and began after minute `after`. The minutes in
/// `excluded` are not part of the past. For refusing, the errors of the minutes are 4xx.
pub(crate) fn search(
    kind: ChangeKind,
    minutes: &Minutes,
    now: Tick,
    after: Tick,
    excluded: &[Span],
) -> Option<Increase> {
    let (min_strength, least) = match kind {
        ChangeKind::Refusing => REFUSING,
        _ => FAILING,
    };
    let last = minutes.back().filter(|last| last.tick == now)?;
    // Most pages have no errors at present, and need no test.
    let mut lately = minutes.iter().rev().take(3);
    if lately.all(|minute| minute.errors == 0) || last.requests == 0 {
        return None;
    }
    let included = minutes.iter();
    let included = included.filter(|minute| !is_in(excluded, minute.tick));
    let included: Vec<_> = included.collect();
    let until =
        |ends: Tick| &included[..included.partition_point(|minute| minute.tick <= now - ends)];
    let ends = match until(PAST_ENDS).len() {
        30.. => PAST_ENDS,
        _ => YOUNG_PAST_ENDS,
    };
    let past = Share::of(until(ends));
    if until(ends).len() < FEWEST_MINUTES as usize || past.requests < FEWEST_REQUESTS as f64 {
        return None;
    }
    let usual = past.share();
    let (mut squares, mut counted) = (USUAL_MINUTES * USUAL_DISPERSION, USUAL_MINUTES);
    let smoothed = (past.errors + 0.5) / (past.requests + 1.0);
    for minute in until(ends) {
        let requests = f64::from(minute.requests);
        let expected = requests * smoothed;
        squares +=
            (f64::from(minute.errors) - expected).powi(2) / (expected * (1.0 - smoothed)).max(0.05);
        counted += 1.0;
    }
    let dispersion = (squares / counted).max(1.0);

    let recent = minutes.iter().rev();
    let recent = recent.take_while(|minute| minute.tick > (now - ends).max(after));
    let recent: Vec<_> = recent.take(MAX_MINUTES).collect();
    let mut window = Share::default();
    let mut best: Option<Increase> = None;
    for (index, minute) in recent.iter().enumerate() {
        window.add(minute);
        let length = index + 1;
        let share = window.share();
        if length < MIN_MINUTES || share < usual + least || share < 2.0 * usual {
            continue;
        }
        let strength = (deviance(window, past) / dispersion).max(0.0).sqrt();
        if strength < min_strength || best.is_some_and(|best| best.strength >= strength) {
            continue;
        }
        if goes_on(&recent[..length], window, smoothed, dispersion) {
            best = Some(Increase {
                since: minute.tick,
                strength,
                then: usual,
            });
        }
    }
    let mut best = best?;
    let since = |tick: Tick| &recent[..recent.partition_point(|minute| minute.tick >= tick)];
    let between = (usual + Share::of(since(best.since)).share()) / 2.0;
    best.since = turning_point(recent.iter().map(|minute| {
        let expected = between * f64::from(minute.requests);
        (minute.tick, f64::from(minute.errors) - expected)
    }));
    (since(best.since).len() >= MIN_MINUTES).then_some(best)
}

/// Twice the logarithm of the likelihood ratio between two separate shares and one common share.
fn deviance(a: Share, b: Share) -> f64 {
    let common = (a.errors + b.errors) / (a.requests + b.requests).max(1.0);
    2.0 * (a.likelihood(a.share()) + b.likelihood(b.share())
        - a.likelihood(common)
        - b.likelihood(common))
}

/// Whether the errors continue, and the increase shows even without the two worst minutes. `recent` has at least
/// [`MIN_MINUTES`] minutes.
fn goes_on(recent: &[&PageMinute], window: Share, usual: f64, dispersion: f64) -> bool {
    let now = window.share();
    let evidence = |share: Share| (share.likelihood(now) - share.likelihood(usual)) / dispersion;
    let mut order = recent.to_vec();
    order.order_by_key(|minute| minute.errors);
    let without_worst = &order[..order.len() - 2];
    evidence(Share::of(&recent[..2])) > 0.0 && evidence(Share::of(without_worst)) >= EVIDENCE
}

/// Whether an increase from `then` to `now` has ended.
pub(crate) fn is_over(minutes: &Minutes, now_tick: Tick, then: f64, now: f64) -> bool {
    let mut last = Share::default();
    for minute in minutes.iter().rev().take(12) {
        let enough = last.requests * now >= 12.0;
        if minute.tick < now_tick - 2 && enough {
            break;
        }
        last.add(minute);
    }
    last.share() < then + 0.45 * (now - then)
}

#[cfg(test)]
mod tests;
