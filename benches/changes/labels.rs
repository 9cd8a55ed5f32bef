//! What happens to a service that somebody should be told of.

use crate::page::{Page, Shape};
use crate::rng::Random;
use crate::workload::{MINUTES, PAGES};

/// What a label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LabelKind {
    Slower,
    Faster,
    Surge,
    Failing,
}

/// Which requests are slower, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All.
    Body,
    /// All, more from minute to minute for half an hour.
    Drift,
    /// All, after a minute that was much worse.
    BadStart,
    /// All but the slowest tenth.
    Median,
    /// The slowest tenth.
    UpperTenth,
    /// A tenth, whichever.
    SomeRequests,
    /// Those that miss a cache, of which there are more.
    Misses,
}

/// Minutes in which a drift grows.
const DRIFTING: usize = 30;

/// A change that a detector should find.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) page: usize,
    pub(crate) kind: LabelKind,
    pub(crate) part: Part,
    /// The first minute.
    pub(crate) from: usize,
    /// The minute after the last one.
    pub(crate) to: usize,
    /// Of the times, of the rate, or of the odds of a miss; for failing, the share of errors.
    pub(crate) ratio: f64,
    /// Requests per minute of the page.
    pub(crate) rate: f64,
}

impl Label {
    /// The part of a drift that is there in a minute.
    pub(crate) fn grown(&self, minute: usize) -> f64 {
        ((minute - self.from + 1) as f64 / DRIFTING as f64).min(1.0)
    }
}

/// Each page has one change at most, so that no change is within the past of another one. Pages whose tail or cache
/// changes become such as that can be seen on: the three families in turn, 30 to 300 requests per minute.
pub(crate) fn random_labels(random: &mut Random, pages: &mut [Page]) -> Vec<Label> {
    use LabelKind::{Failing, Faster, Slower, Surge};
    let mut kinds = vec![(Slower, Part::Body); 5];
    kinds.extend(
        [
            Part::Drift,
            Part::BadStart,
            Part::Median,
            Part::UpperTenth,
            Part::UpperTenth,
            Part::UpperTenth,
            Part::SomeRequests,
            Part::Misses,
        ]
        .map(|part| (Slower, part)),
    );
    kinds.extend([Faster, Surge, Surge, Failing].map(|kind| (kind, Part::Body)));
    let chosen = random.sample(PAGES, kinds.len());
    let mut tails = 0;
    let labels = kinds.into_iter().zip(chosen).map(|((kind, part), number)| {
        let page = &mut pages[number];
        let shape = match (part, tails) {
            (Part::UpperTenth, 0) => Some(Shape::log_normal(random)),
            (Part::UpperTenth, 1) => Some(Shape::pareto(random)),
            (Part::UpperTenth, _) | (Part::Misses, _) => Some(Shape::bimodal(random)),
            _ => None,
        };
        if let Some(shape) = shape {
            tails += usize::from(part == Part::UpperTenth);
            page.shape = shape;
            page.rate = random.log_between(30.0, 300.0);
            page.find_upper_tenth(random);
        }
        if part == Part::Median {
            page.rate = page.rate.max(30.0);
        }
        let from = random.whole(60, MINUTES - 15);
        let length = match (part, random.chance(0.3)) {
            (Part::Drift, _) | (_, true) => MINUTES,
            _ => random.whole(10, 60),
        };
        let ratio = match (kind, part) {
            (Slower, Part::Body) => random.pick(&[1.15, 1.3, 1.5, 2.0, 3.0]),
            (Slower, Part::Drift) => random.pick(&[1.3, 1.5, 2.0]),
            (Slower, Part::BadStart) => random.pick(&[1.3, 1.5, 2.0]),
            (Slower, Part::Median) => random.pick(&[1.5, 2.0]),
            (Slower, Part::UpperTenth) => random.pick(&[1.5, 2.0, 3.0]),
            (Slower, Part::SomeRequests) => random.pick(&[4.0, 6.0, 10.0]),
            (Slower, Part::Misses) => random.pick(&[2.0, 3.0, 5.0]),
            (Faster, _) => random.pick(&[0.7, 0.5]),
            (Surge, _) => random.log_between(3.0, 10.0),
            (Failing, _) => (page.error_share * 3.0 + random.log_between(0.03, 0.5)).min(0.9),
        };
        let from = match part {
            Part::Drift => from.min(MINUTES - 45),
            _ => from,
        };
        Label {
            page: number,
            kind,
            part,
            from,
            to: (from + length).min(MINUTES),
            ratio,
            rate: page.rate,
        }
    });
    labels.collect()
}
