//! The past of a page: the quiet minutes of about an hour that ended some minutes ago.

use super::history::{History, PackedMinute, PageMinute, RENEWED, STORED, Span, Tick, is_in};
use super::noise::Noise;
use super::reference::{Past, Reference, SCORES, SPANS};
use super::scored::{Tally, score};
use super::state::SharedMinutes;
use super::statistics::{lower_mean, median};
use tower_pulse_model::order::InOrder;

/// Minutes between a usual past and now.
pub(crate) const PAST_ENDS: Tick = 20;
/// The length of a usual past, in minutes.
const PAST_MINUTES: Tick = 50;
/// Minutes between the past of a young page and now.
pub(crate) const YOUNG_PAST_ENDS: Tick = 10;
/// The fewest minutes and requests of a past.
pub(crate) const FEWEST_MINUTES: u32 = 15;
pub(crate) const FEWEST_REQUESTS: u64 = 40;
/// The fewest minutes of a first slowdown that a [further slowdown](super::further) is compared with.
pub(crate) const FEWEST_CHANGED: u32 = 4;
/// The shift of all pages beyond which a minute is not quiet, as a logarithm.
const QUIET: f64 = 0.14;
/// The distance from the usual score beyond which a minute is not part of a past, in standard deviations.
const OUTLYING: f64 = 4.0;

/// The past of a page at minute `epoch` with its reference, if there are enough minutes and requests. The minutes in
/// `excluded` are not part of the past.
pub(crate) fn find_past(
    history: &History,
    epoch: Tick,
    shared: &SharedMinutes,
    excluded: &[Span],
) -> Option<(Past, Reference)> {
    let end = epoch - PAST_ENDS;
    let usual = Search::new(history, end - PAST_MINUTES, end, shared, excluded).past();
    if usual.as_ref().is_some_and(|(past, _)| past.minutes >= 30) {
        return usual;
    }
    let end = epoch - YOUNG_PAST_ENDS;
    let young = Search::new(history, epoch - STORED + RENEWED, end, shared, excluded).past();
    match (usual, young) {
        (Some(usual), Some(young)) if young.0.minutes < usual.0.minutes + 5 => Some(usual),
        (usual, young) => young.or(usual),
    }
}

/// The past that a [further slowdown](super::further) is compared with: minutes of the first slowdown.
pub(crate) fn find_changed_past(
    history: &History,
    (from, to): (Tick, Tick),
    shared: &SharedMinutes,
) -> Option<Past> {
    let mut search = Search::new(history, from, to, shared, &[]);
    search.fewest = FEWEST_CHANGED;
    Some(search.past()?.0)
}

/// A minute, the difference of its mean score from the expected one, and the sampling variance of the difference.
pub(crate) type MinuteResidual = (Tick, f64, f64);

struct Search<'a> {
    history: &'a History,
    from: Tick,
    to: Tick,
    fewest: u32,
    shared: &'a SharedMinutes,
    excluded: &'a [Span],
    /// The median shared level between `from` and `to`.
    level: f64,
    /// Minutes whose scores are unlike those of the other minutes.
    outlying: Vec<Tick>,
}

impl<'a> Search<'a> {
    fn new(
        history: &'a History,
        from: Tick,
        to: Tick,
        shared: &'a SharedMinutes,
        excluded: &'a [Span],
    ) -> Self {
        Self {
            history,
            from,
            to,
            fewest: FEWEST_MINUTES,
            shared,
            excluded,
            level: shared.median_level(from, to).unwrap_or(0.0),
            outlying: Vec::new(),
        }
    }

    fn is_quiet(&self, tick: Tick) -> bool {
        tick < self.to
            && !is_in(self.excluded, tick)
            && (self.shared.level(tick) - self.level).abs() <= QUIET
    }

    fn each(&self, mut each: impl FnMut(&PageMinute, PackedMinute<'_>)) {
        self.history.each(self.from, |minute, packed| {
            if self.is_quiet(minute.tick) {
                each(minute, packed);
            }
        });
    }

    fn past(mut self) -> Option<(Past, Reference)> {
        let (mut past, mut reference) = self.sums()?;
        let mut residuals = self.residuals(&past, &reference);
        self.outlying = outlying(&residuals, &reference);
        if !self.outlying.is_empty() {
            (past, reference) = self.sums()?;
            residuals = self.residuals(&past, &reference);
        }
        for (kind, residuals) in residuals.iter_mut().enumerate() {
            past.highest[kind] = highest(residuals);
            residuals.retain(|(tick, _, _)| !self.outlying.contains(tick));
            past.noise[kind] = Noise::estimate(residuals, reference.slope(kind));
        }
        Some((past, reference))
    }

    /// The past without its noise.
    fn sums(&self) -> Option<(Past, Reference)> {
        let mut past = Past {
            end: self.to,
            ..Past::default()
        };
        let mut tally = Tally::new();
        let (mut level, mut weights) = (0.0, 0.0);
        self.each(|minute, packed| {
            if self.outlying.contains(&minute.tick) {
                return;
            }
            tally.add(packed);
            past.minutes += 1;
            past.requests = past.requests.saturating_add(u64::from(minute.requests));
            past.errors = past.errors.saturating_add(u64::from(minute.errors));
            let micros = (f64::from(minute.seconds) * 1e6) as u64;
            past.micros = past.micros.saturating_add(micros);
            level += f64::from(minute.requests) * self.shared.level(minute.tick);
            weights += f64::from(minute.requests);
        });
        if past.minutes < self.fewest || past.requests < FEWEST_REQUESTS {
            return None;
        }
        past.level = (level / f64::max(weights, 1.0) * 1e6) as i64;
        let counts = tally.finish();
        let buckets = (0u8..=255).zip(counts.iter()).filter(|(_, n)| **n > 0);
        past.buckets = buckets.map(|(bucket, n)| (bucket, *n)).collect();
        past.buckets.shrink_to_fit();
        Some((past, Reference::new(&counts)?))
    }

    /// The residuals of each kind of score, in all quiet minutes.
    fn residuals(&self, past: &Past, reference: &Reference) -> [Vec<MinuteResidual>; SCORES] {
        let mut residuals: [Vec<MinuteResidual>; SCORES] = Default::default();
        self.each(|minute, packed| {
            let scored = score(minute.tick, packed, reference);
            let count = f64::from(scored.count);
            if count < 1.0 {
                return;
            }
            let shift = self.shared.level(minute.tick) - past.level as f64 * 1e-6;
            for (kind, residuals) in residuals.iter_mut().enumerate() {
                let residual = f64::from(scored.scores[kind]) - reference.expected(kind, shift);
                residuals.push((minute.tick, residual, reference.variance[kind] / count));
            }
        });
        residuals
    }
}

/// The minutes whose scores are far from the median score, measured by the median deviation (Hampel's identifier, *The
/// influence curve and its role in robust estimation*, 1974).
fn outlying(residuals: &[Vec<MinuteResidual>; SCORES], reference: &Reference) -> Vec<Tick> {
    let mut outlying = Vec::new();
    for (kind, residuals) in residuals.iter().enumerate() {
        let middle = median(residuals.iter().map(|(_, residual, _)| *residual)).unwrap_or(0.0);
        let usual = Noise::usual(reference.slope(kind));
        let size = |(_, residual, sampling): &MinuteResidual| {
            (residual - middle).abs() / (usual + sampling).sqrt()
        };
        let scale = (1.4826 * median(residuals.iter().map(size)).unwrap_or(0.0)).max(1.0);
        let far = residuals
            .iter()
            .filter(|minute| size(minute) > OUTLYING * scale);
        outlying.extend(far.map(|(tick, _, _)| *tick));
    }
    outlying.order();
    outlying.dedup();
    outlying
}

/// The largest mean of 2, 3, … consecutive residuals, in millionths, at least 0. Each mean leaves out the largest of its
/// residuals.
fn highest(residuals: &[MinuteResidual]) -> [i32; SPANS] {
    std::array::from_fn(|index| {
        let windows = residuals.windows(index + 2);
        let means =
            windows.map(|window| lower_mean(window.iter().map(|(_, residual, _)| *residual)));
        (means.fold(0.0, f64::max) * 1e6) as i32
    })
}
