//! Compares an instance on a context with all others in the same minutes.

use crate::cost::{mean, squares};
use crate::history::Tick;
use crate::statistics;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::histogram::lower_bound;

/// The fewest samples on each side of a comparison.
pub(super) const MIN_SAMPLES: f64 = 30.0;

/// The smallest ratio of times that is reported.
const MIN_RATIO: f64 = 1.3;

/// The smallest share of errors that is reported: twice the share of the others plus two percentage points.
const MIN_ERROR_RATIO: f64 = 2.0;
pub(super) const MIN_ERROR_SHARE: f64 = 0.02;

/// Sums of one instance and context in a minute.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    pub(super) requests: f64,
    pub(super) errors: f64,
    pub(super) seconds: f64,
    /// The number of successful responses. `logs` and `squares` sum the logarithms of their times, and the squares of
    /// these.
    pub(super) successes: f64,
    pub(super) logs: f64,
    pub(super) squares: f64,
}

impl Moments {
    pub(super) fn of(sums: &Aggregate) -> Self {
        let histogram = sums.successes();
        let scale = histogram.scale();
        let mut moments = Self {
            requests: sums.times.count as f64,
            errors: sums.outcomes.errors as f64,
            seconds: sums.times.sum as f64 * 1e-9,
            ..Self::default()
        };
        for (index, n) in histogram.buckets() {
            let bound = |index: u16| lower_bound(index, scale);
            let log = (bound(*index) * bound(index.saturating_add(1))).sqrt().ln();
            moments.successes += *n as f64;
            moments.logs += *n as f64 * log;
            moments.squares += *n as f64 * log * log;
        }
        moments
    }

    pub(super) fn add(&mut self, other: &Self) {
        *self = self.plus(1.0, other);
    }

    pub(super) fn plus(&self, sign: f64, other: &Self) -> Self {
        Self {
            requests: self.requests + sign * other.requests,
            errors: self.errors + sign * other.errors,
            seconds: self.seconds + sign * other.seconds,
            successes: self.successes + sign * other.successes,
            logs: self.logs + sign * other.logs,
            squares: self.squares + sign * other.squares,
        }
    }

    /// The figures that are compared: the number of samples, their mean, and the sum of their squared deviations.
    pub(super) fn samples(&self, measure: Measure) -> (f64, f64, f64) {
        match measure {
            Measure::Time => {
                let n = self.successes.max(0.0);
                let mean = self.logs / n.max(1.0);
                (n, mean, (self.squares - n * mean * mean).max(0.0))
            }
            Measure::Errors => {
                let n = self.requests.max(0.0);
                let share = self.errors / n.max(1.0);
                (n, share, n * share * (1.0 - share))
            }
        }
    }

    pub(super) fn mean_seconds(&self) -> f64 {
        self.seconds / self.requests.max(1.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// The times of successful responses.
    Time,
    /// The share of errors.
    Errors,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Difference {
    pub(super) effect: f64,
    pub(super) z: f64,
    pub(super) own: f64,
    pub(super) others: f64,
}

/// The sums of an instance and of all others on a context in a minute.
pub(super) type Sides = (Tick, Moments, Moments);

pub(super) fn total(sides: &[Sides]) -> (Moments, Moments) {
    let (mut own, mut others) = (Moments::default(), Moments::default());
    for (_, mine, theirs) in sides {
        own.add(mine);
        others.add(theirs);
    }
    (own, others)
}

/// Compares an instance with the others in the minutes from `from` on; `None` if fewer than `fewest` minutes have
/// requests of both sides, or if a side has too few requests. `sides` must be sorted, oldest first.
pub(super) fn compare(
    sides: &[Sides],
    measure: Measure,
    from: Tick,
    fewest: usize,
) -> Option<Difference> {
    let window = &sides[sides.partition_point(|(at, ..)| *at < from)..];
    let (mut deviations, mut samples) = (0.0, 0.0);
    let mut minutes = Vec::new();
    for (_, own, others) in window {
        let (n, level, own_deviations) = own.samples(measure);
        let (m, other, other_deviations) = others.samples(measure);
        if n < 1.0 || m < 1.0 {
            continue;
        }
        deviations += own_deviations + other_deviations;
        samples += n + m - 2.0;
        minutes.push((n * m / (n + m), level - other));
    }
    let (own, others) = total(window);
    let (n, level, _) = own.samples(measure);
    let (m, other, _) = others.samples(measure);
    if minutes.len() < fewest || n < MIN_SAMPLES || m < MIN_SAMPLES {
        return None;
    }
    let (weights, effect) = mean(&minutes);
    // Without any error, the variance is that of half an error.
    let least = match measure {
        Measure::Time => 1e-6,
        Measure::Errors => 0.5 / (n + m),
    };
    let variance = (deviations / f64::max(samples, 1.0)).max(least);
    let dispersion = (squares(&minutes) / (minutes.len() - 1) as f64 / variance).max(1.0);
    Some(Difference {
        effect,
        z: effect / (variance * dispersion / weights).sqrt(),
        own: level,
        others: other,
    })
}

pub(super) fn is_large(measure: Measure, difference: &Difference) -> bool {
    match measure {
        Measure::Time => difference.effect >= MIN_RATIO.ln(),
        Measure::Errors => difference.own >= MIN_ERROR_RATIO * difference.others + MIN_ERROR_SHARE,
    }
}

/// The minute since which an instance is out of line. From this minute to the end, the sum of the instance's excess
/// over half of the effect is largest.
pub(super) fn turning_point(sides: &[Sides], measure: Measure, effect: f64) -> Tick {
    statistics::turning_point(sides.iter().rev().filter_map(|(at, own, others)| {
        let (n, level, _) = own.samples(measure);
        let (m, other, _) = others.samples(measure);
        let excess = n * m / (n + m) * (level - other - effect / 2.0);
        (n >= 1.0 && m >= 1.0).then_some((*at, excess))
    }))
}

#[cfg(test)]
mod tests;
