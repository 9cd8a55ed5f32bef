//! Changes of a service that a detector should report.

use crate::page::{Page, Refusals, Shape};
use crate::rng::Random;
use crate::workload::{MINUTES, PAGES};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LabelKind {
    Slower,
    Faster,
    Surge,
    Failing,
    Refusing,
}

/// The requests that are slower, and the course of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All requests.
    All,
    /// All requests. The slowdown grows for half an hour.
    Drift,
    /// All requests. The first minute is much slower than the others.
    BadStart,
    /// All requests except the slowest tenth.
    Median,
    /// The slowest tenth of the requests.
    UpperTenth,
    /// A random share of the requests.
    Mix,
    /// More requests miss a cache.
    Misses,
    /// All requests. The slowdown grows with the page's data.
    Growth,
    /// All requests, in one step, on a page whose data grows.
    Step,
}

/// The minutes in which a drift grows.
const DRIFTING: usize = 30;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) page: usize,
    pub(crate) kind: LabelKind,
    pub(crate) part: Part,
    pub(crate) from: usize,
    /// The minute after the last minute of the change.
    pub(crate) to: usize,
    /// The times of the changed requests, the odds of a miss or the rate of a surge, divided by the values before. For
    /// failing and refusing, the share of errors or of 4xx.
    pub(crate) ratio: f64,
    /// For a mix, the share of the requests that are slower.
    pub(crate) share: f64,
    /// The ratio of the mean times, for a mix, misses and changes of all requests except `Growth` and `Step`.
    pub(crate) mean: f64,
    /// The minutes in which the change grows.
    pub(crate) growing: usize,
    /// The page's requests per minute.
    pub(crate) rate: f64,
}

impl Label {
    /// The logarithm of the factor by which the times of a minute are multiplied.
    pub(crate) fn shift(&self, minute: usize) -> f64 {
        let grown = ((minute - self.from + 1) as f64 / self.growing.max(1) as f64).min(1.0);
        match self.part {
            Part::Growth => (1.0 + (self.ratio - 1.0) * grown).ln(),
            Part::BadStart if minute == self.from => 3.0 * self.ratio.ln(),
            _ => self.ratio.ln() * grown,
        }
    }
}

/// Labels some pages with one change each. The three pages whose slowest tenth changes get different distributions.
/// These pages, and the page whose cache changes, get 30 to 300 requests per minute, so that the change can be seen.
pub(crate) fn random_labels(random: &mut Random, pages: &mut [Page]) -> Vec<Label> {
    use LabelKind::{Failing, Faster, Slower, Surge};
    let mut kinds = vec![(Slower, Part::All); 5];
    kinds.extend(
        [
            Part::Drift,
            Part::BadStart,
            Part::Median,
            Part::UpperTenth,
            Part::UpperTenth,
            Part::UpperTenth,
            Part::Mix,
            Part::Misses,
        ]
        .map(|part| (Slower, part)),
    );
    kinds.extend([Faster, Surge, Surge, Failing].map(|kind| (kind, Part::All)));
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
            (Slower, Part::All) => random.pick(&[1.15, 1.3, 1.5, 2.0, 3.0]),
            (Slower, Part::Drift) => random.pick(&[1.3, 1.5, 2.0]),
            (Slower, Part::BadStart) => random.pick(&[1.3, 1.5, 2.0]),
            (Slower, Part::Median) => random.pick(&[1.5, 2.0]),
            (Slower, Part::UpperTenth) => random.pick(&[1.5, 2.0, 3.0]),
            (Slower, Part::Mix) => random.pick(&[4.0, 6.0, 10.0]),
            (Slower, _) => random.pick(&[2.0, 3.0, 5.0]),
            (Faster, _) => random.pick(&[0.7, 0.5]),
            (Surge, _) => random.log_between(3.0, 10.0),
            (Failing | LabelKind::Refusing, _) => {
                (page.error_share * 3.0 + random.log_between(0.03, 0.5)).min(0.9)
            }
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
            share: 0.1,
            mean: mean_ratio(page.shape, part, ratio, 0.1),
            growing: usize::from(part == Part::Drift) * DRIFTING,
            rate: page.rate,
        }
    });
    labels.collect()
}

fn mean_ratio(shape: Shape, part: Part, ratio: f64, share: f64) -> f64 {
    match (part, shape) {
        (Part::Mix, _) => 1.0 + share * (ratio - 1.0),
        (Part::Misses, Shape::Bimodal { misses, factor, .. }) => {
            let odds = misses / (1.0 - misses) * ratio;
            let mean = |misses: f64| 1.0 + misses * (factor - 1.0);
            mean(odds / (1.0 + odds)) / mean(misses)
        }
        _ => ratio,
    }
}

/// Makes half of the pages slower: six in all requests, six in a share of the requests, five by more cache misses, and
/// three in the slowest tenth.
pub(crate) fn mixed_labels(random: &mut Random, pages: &mut [Page]) -> Vec<Label> {
    let parts = [
        (Part::All, 6),
        (Part::Mix, 6),
        (Part::Misses, 5),
        (Part::UpperTenth, 3),
    ];
    let parts = parts
        .into_iter()
        .flat_map(|(part, count)| vec![part; count]);
    let parts: Vec<_> = parts.collect();
    let chosen = random.sample(PAGES, parts.len());
    let labels = parts.into_iter().zip(chosen).enumerate();
    let labels = labels.map(|(index, (part, number))| {
        let page = &mut pages[number];
        if part == Part::Misses || part == Part::Mix && index % 2 == 0 {
            page.shape = Shape::bimodal(random);
        }
        page.rate = page.rate.max(random.log_between(30.0, 300.0));
        page.find_upper_tenth(random);
        let from = random.whole(60, MINUTES - 15);
        let length = match random.chance(0.3) {
            true => MINUTES,
            false => random.whole(10, 60),
        };
        let (ratio, share) = match part {
            Part::All => (random.pick(&[1.3, 1.5, 2.0, 3.0]), 1.0),
            Part::Mix => (random.between(2.0, 6.0), random.between(0.1, 0.5)),
            Part::Misses => (random.between(1.5, 6.0), 1.0),
            _ => (2.0, 0.1),
        };
        Label {
            page: number,
            kind: LabelKind::Slower,
            part,
            from,
            to: (from + length).min(MINUTES),
            ratio,
            share,
            mean: mean_ratio(page.shape, part, ratio, share),
            growing: 0,
            rate: page.rate,
        }
    });
    labels.collect()
}

/// Labels twelve pages whose data grows within an hour, and four whose data grows within a day. Every second of these
/// pages also becomes slower in one step.
pub(crate) fn growing_labels(random: &mut Random, pages: &mut [Page]) -> Vec<Label> {
    let chosen = random.sample(PAGES, 16);
    let mut labels = Vec::new();
    for (index, number) in chosen.into_iter().enumerate() {
        let page = &mut pages[number];
        page.rate = page.rate.max(random.log_between(30.0, 300.0));
        let is_of_day = index >= 12;
        let from = match is_of_day {
            true => 0,
            false => random.whole(60, MINUTES - 60),
        };
        let growth = Label {
            page: number,
            kind: LabelKind::Slower,
            part: Part::Growth,
            from,
            to: MINUTES,
            ratio: random.between(2.0, 5.0),
            share: 1.0,
            mean: 1.0,
            growing: if is_of_day { 24 * 60 } else { 60 },
            rate: page.rate,
        };
        labels.push(growth);
        if index % 2 == 0 {
            labels.push(Label {
                part: Part::Step,
                from: random.whole(from.max(50) + 12, MINUTES - 10),
                ratio: random.pick(&[1.6, 2.0, 3.0]),
                growing: 0,
                ..growth
            });
        }
    }
    labels
}

/// Labels eight pages without another label, which answer many more requests with 4xx.
pub(crate) fn refusing_labels(
    random: &mut Random,
    pages: &[Page],
    refusals: &[Refusals],
    others: &[Label],
) -> Vec<Label> {
    let mut free = random.sample(PAGES, PAGES);
    free.retain(|page| others.iter().all(|label| label.page != *page));
    let labels = free.into_iter().take(8).map(|number| {
        let from = random.whole(60, MINUTES - 15);
        let length = match random.chance(0.3) {
            true => MINUTES,
            false => random.whole(10, 60),
        };
        let share = 2.5 * refusals[number].share + random.log_between(0.08, 0.5);
        Label {
            page: number,
            kind: LabelKind::Refusing,
            part: Part::All,
            from,
            to: (from + length).min(MINUTES),
            ratio: share.min(0.95),
            share: 1.0,
            mean: 1.0,
            growing: 0,
            rate: pages[number].rate,
        }
    });
    labels.collect()
}
