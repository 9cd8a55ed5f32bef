//! A labelled workload: 40 pages over three hours. The workload has normal events, which a detector should not report,
//! and changes, which a detector should report.

use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::histogram::{BUCKETS, Histogram, bucket_of};
use tower_pulse_model::outcome::Outcome;

use crate::events::Events;
use crate::labels::{
    Label, LabelKind, Part, growing_labels, mixed_labels, random_labels, refusing_labels,
};
use crate::page::{Page, Refusals, Regime, Season, Shape, Wobble};
use crate::pauses::Pauses;
use crate::rng::Random;

pub(crate) const PAGES: usize = 40;
pub(crate) const MINUTES: usize = 180;

/// The kind of noise and of changes. The detector is tuned on the first design only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    /// Each page wobbles independently.
    Plain,
    /// The times of pages, and of groups of pages that share a database, wander and jump. Traffic varies more, and
    /// rises at each full hour.
    Wandering,
    /// A third of the pages switch between two levels for minutes at a time, as a query planner does.
    Regimes,
    /// Times and traffic rise and fall within each hour, on each page in its own way.
    Seasons,
    /// Clients that retry double the traffic of some pages for minutes, and slow these pages a little.
    Retries,
    /// The process stops at a steady interval, as for garbage collection, and some requests wait.
    Pauses,
    /// Some pages that share a database are slow for three minutes, again and again.
    Troubles,
    /// Plain noise. Half of the pages become slower, most of them in a share of their requests.
    Mixes,
    /// Plain noise. Pages grow with their data, and some also become slower in one step.
    Growth,
    /// Plain noise. Pages also answer with 4xx, scanners come for a minute or two, and some pages begin to refuse.
    Refusals,
}

impl Design {
    pub(crate) const ALL: [Self; 10] = [
        Self::Plain,
        Self::Wandering,
        Self::Regimes,
        Self::Seasons,
        Self::Retries,
        Self::Pauses,
        Self::Troubles,
        Self::Mixes,
        Self::Growth,
        Self::Refusals,
    ];
}

pub(crate) struct Run {
    pub(crate) pages: Vec<Page>,
    pub(crate) labels: Vec<Label>,
    events: Events,
    pauses: Option<Pauses>,
    /// The 4xx of each page; empty if no page has any.
    refusals: Vec<Refusals>,
    groups: Vec<Wobble>,
    design: Design,
    random: Random,
    minute: usize,
    diurnal: f64,
    phase: f64,
    host_weight: f64,
    counts: Vec<u32>,
    failures: Vec<u32>,
}

pub(crate) fn id_of(page: usize) -> RecordId {
    RecordId::new(Kind::Http, &format!("GET /page/{page}"))
}

impl Run {
    pub(crate) fn new(seed: u64, design: Design) -> Self {
        let mut random = Random::new(seed);
        let wanders = design == Design::Wandering;
        // All pages of a run share these properties, so that runs differ more than the pages of one run.
        let busy = random.log_between(200.0, 1_200.0);
        let persistence = random.between(0.3, 0.9);
        let mut pages: Vec<_> = (0..PAGES)
            .map(|_| new_page(&mut random, design, busy, persistence))
            .collect();
        let groups = (0..6).map(|_| Wobble {
            sigma: if wanders {
                random.between(0.01, 0.05)
            } else {
                0.0
            },
            persistence: random.between(0.5, 0.97),
            is_heavy: wanders,
            value: 0.0,
        });
        let groups = groups.collect();
        let host_weight = random.between(0.7, 1.3);
        let mut labels = match design {
            Design::Mixes => mixed_labels(&mut random, &mut pages),
            Design::Growth => growing_labels(&mut random, &mut pages),
            _ => random_labels(&mut random, &mut pages),
        };
        let mut refusals = Vec::new();
        if design == Design::Refusals {
            refusals.extend((0..PAGES).map(|_| Refusals::random(&mut random)));
            let refusing = refusing_labels(&mut random, &pages, &refusals, &labels);
            labels.extend(refusing);
        }
        let events = Events::random(&mut random, &pages, design);
        let pauses = (design == Design::Pauses).then(|| Pauses::random(&mut random));
        Self {
            pages,
            labels,
            events,
            pauses,
            refusals,
            groups,
            design,
            minute: 0,
            diurnal: random.between(0.0, 0.4),
            phase: random.between(0.0, std::f64::consts::TAU),
            host_weight,
            random,
            counts: vec![0; BUCKETS],
            failures: vec![0; BUCKETS],
        }
    }

    /// The aggregate of the next minute for each page with requests.
    pub(crate) fn next(&mut self) -> Vec<(usize, Aggregate)> {
        let minute = self.minute;
        self.minute += 1;
        let groups: Vec<_> = (self.groups.iter_mut())
            .map(|group| group.next(&mut self.random))
            .collect();
        let host = self.events.host(minute, &mut self.random) * self.host_weight;
        let angle = minute as f64 / MINUTES as f64 * std::f64::consts::PI + self.phase;
        let mut day = 1.0 + self.diurnal * angle.sin();
        if self.design == Design::Wandering && minute % 60 < 3 {
            // Many clients wake up at the full hour.
            day *= 1.0 + self.diurnal;
        }
        let load_shift = 0.15 * day.ln();
        (0..PAGES)
            .filter_map(|page| {
                let group = groups[self.pages[page].group];
                let shift = group + host * self.pages[page].shared_weight + load_shift;
                let aggregate = self.page_minute(page, minute, shift, day)?;
                Some((page, aggregate))
            })
            .collect()
    }

    fn page_minute(
        &mut self,
        number: usize,
        minute: usize,
        shift: f64,
        day: f64,
    ) -> Option<Aggregate> {
        let random = &mut self.random;
        let page = &mut self.pages[number];
        let mut shift = shift + page.wobble.next(random) + self.events.page_shift(number, minute);
        shift += page.regime.next(random) + page.season.shift(minute);
        let mut miss_odds = page.miss_wobble.next(random).exp();
        miss_odds *= self.events.cold(number, minute);
        let mut rate = page.rate * day * page.rate_wobble.next(random).exp();
        rate *= self.events.traffic_factor(number, minute) * page.season.traffic(minute);
        let mut error_share = page.error_share * self.events.error_factor(number, minute);
        let refusals = self.refusals.get_mut(number);
        let mut refused_share = refusals.map_or(0.0, |refusals| refusals.next(random));
        let mut of_part = None;
        for label in &self.labels {
            if label.page != number || !(label.from..label.to).contains(&minute) {
                continue;
            }
            match (label.kind, label.part) {
                (LabelKind::Surge, _) => rate *= label.ratio,
                (LabelKind::Failing, _) => error_share = label.ratio,
                (LabelKind::Refusing, _) => refused_share = label.ratio,
                (_, Part::Misses) => miss_odds *= label.ratio,
                (_, Part::Mix | Part::UpperTenth | Part::Median) => of_part = Some(*label),
                _ => shift += label.shift(minute),
            }
        }
        let count = random.poisson(rate);
        if count == 0 {
            return None;
        }
        let mut aggregate = Aggregate::default();
        let errors = random.binomial(count, error_share.min(1.0));
        let scanned = self.events.scanned(number, minute);
        refused_share += scanned * (1.0 - refused_share);
        let refused = match refused_share > 0.0 {
            true => random.binomial(count - errors, refused_share),
            false => 0,
        };
        for request in 0..count {
            let (is_error, failed) = (request < errors, request < errors + refused);
            let mut draw = page.shape.draw(random, miss_odds);
            if let Some(label) = of_part {
                let slower = draw + label.ratio.ln();
                match label.part {
                    Part::UpperTenth if draw > page.upper_tenth => draw = slower,
                    Part::Mix if random.chance(label.share) => draw = slower,
                    Part::Median if draw <= page.upper_tenth => draw = slower.min(page.upper_tenth),
                    _ => {}
                }
            }
            if failed {
                draw = draw.min(0.0) - 1.0;
            }
            let mut seconds = page.median * (draw + shift).exp();
            if let Some(pauses) = &self.pauses {
                seconds += pauses.wait(minute, random);
            }
            let nanos = ((seconds * 1e6).round() * 1e3).clamp(1e3, 3.6e12) as u64;
            let bucket = bucket_of(nanos);
            aggregate.times.record(nanos);
            self.counts[bucket] += 1;
            if failed {
                self.failures[bucket] += 1;
            }
            let outcome = match (is_error, failed) {
                (true, _) => Outcome::ServerError,
                (false, true) => Outcome::ClientError,
                (false, false) => Outcome::Success,
            };
            aggregate.outcomes.record(outcome, is_error);
        }
        aggregate.histogram = Histogram::from_counts(0, &self.counts);
        self.counts.fill(0);
        if errors + refused > 0 {
            aggregate.failures = Histogram::from_counts(0, &self.failures);
            self.failures.fill(0);
        }
        Some(aggregate)
    }
}

fn new_page(random: &mut Random, design: Design, busy: f64, persistence: f64) -> Page {
    let wanders = design == Design::Wandering;
    let wobble = Wobble {
        sigma: random.between(0.01, 0.05),
        persistence: match wanders {
            true => random.between(0.2, 0.97),
            false => (persistence + random.between(-0.1, 0.1)).clamp(0.0, 0.95),
        },
        is_heavy: wanders,
        value: 0.0,
    };
    let rate_wobble = Wobble {
        sigma: random.between(0.02, if wanders { 0.3 } else { 0.15 }),
        persistence: random.between(0.0, 0.95),
        is_heavy: false,
        value: 0.0,
    };
    let miss_wobble = Wobble {
        sigma: random.between(0.0, if wanders { 0.2 } else { 0.1 }),
        ..wobble
    };
    let mut page = Page {
        shape: Shape::random(random),
        median: random.log_between(0.001, 1.0),
        rate: random.log_between(1.5, busy),
        error_share: match random.whole(0, 3) {
            0 => 0.0,
            1 => random.log_between(0.0005, 0.01),
            _ => random.log_between(0.005, 0.05),
        },
        wobble,
        miss_wobble,
        rate_wobble,
        shared_weight: random.between(0.6, 1.4),
        group: random.whole(0, 6),
        regime: match design == Design::Regimes && random.chance(0.33) {
            true => Regime::random(random),
            false => Regime::default(),
        },
        season: match design == Design::Seasons {
            true => Season::random(random),
            false => Season::default(),
        },
        upper_tenth: 0.0,
    };
    page.find_upper_tenth(random);
    page
}
