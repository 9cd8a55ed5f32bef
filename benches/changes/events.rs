//! Events that are normal in a service, and that a detector should not report.

use std::ops::Range;

use crate::page::Page;
use crate::rng::Random;
use crate::workload::{Design, MINUTES, PAGES};

struct Episode {
    pages: Vec<usize>,
    from: usize,
    to: usize,
    /// Added to the logarithm of the request times.
    shift: f64,
    /// The number of minutes after which the event's strength has fallen to 1/e; 0 if it does not fall.
    decay: f64,
    /// The factor by which the odds of a cache miss rise.
    cold: f64,
    traffic_factor: f64,
    error_factor: f64,
    /// The share of the requests that come from a scanner, which asks for missing items.
    scanned: f64,
}

impl Episode {
    fn strength(&self, minute: usize) -> f64 {
        if !(self.from..self.to).contains(&minute) {
            return 0.0;
        }
        match self.decay > 0.0 {
            true => (-((minute - self.from) as f64) / self.decay).exp(),
            false => 1.0,
        }
    }
}

pub(crate) struct Events {
    episodes: Vec<Episode>,
    /// For each minute, the logarithm of the factor by which other work of the host slows all pages.
    host: Vec<f64>,
    /// The indexes of each page's episodes.
    by_page: Vec<Vec<usize>>,
}

impl Events {
    pub(crate) fn random(random: &mut Random, pages: &[Page], design: Design) -> Self {
        let wanders = design == Design::Wandering;
        let mut episodes = Vec::new();
        deploys(random, &mut episodes);
        batch_jobs(random, &mut episodes, wanders);
        bursts(random, &mut episodes);
        match design {
            Design::Wandering => {
                let troubles = random.whole(1, 5);
                group_trouble(random, &mut episodes, pages, troubles, 1..4);
            }
            Design::Troubles => group_trouble(random, &mut episodes, pages, 10, 3..4),
            Design::Retries => retries(random, &mut episodes),
            Design::Refusals => scans(random, &mut episodes),
            _ => {}
        }
        let host = slow_minutes(random);
        let mut by_page = vec![Vec::new(); PAGES];
        for (index, episode) in episodes.iter().enumerate() {
            for page in &episode.pages {
                by_page[*page].push(index);
            }
        }
        Self {
            episodes,
            host,
            by_page,
        }
    }

    pub(crate) fn host(&self, minute: usize, random: &mut Random) -> f64 {
        self.host[minute] + 0.01 * random.normal()
    }

    fn sum(&self, page: usize, minute: usize, part: impl Fn(&Episode) -> f64) -> f64 {
        let episodes = self.by_page[page]
            .iter()
            .map(|index| &self.episodes[*index]);
        episodes
            .map(|episode| part(episode) * episode.strength(minute))
            .sum()
    }

    pub(crate) fn page_shift(&self, page: usize, minute: usize) -> f64 {
        self.sum(page, minute, |episode| episode.shift)
    }

    pub(crate) fn cold(&self, page: usize, minute: usize) -> f64 {
        self.sum(page, minute, |episode| episode.cold.ln()).exp()
    }

    pub(crate) fn traffic_factor(&self, page: usize, minute: usize) -> f64 {
        self.sum(page, minute, |episode| episode.traffic_factor.ln())
            .exp()
    }

    pub(crate) fn scanned(&self, page: usize, minute: usize) -> f64 {
        self.sum(page, minute, |episode| episode.scanned).min(1.0)
    }

    pub(crate) fn error_factor(&self, page: usize, minute: usize) -> f64 {
        self.sum(page, minute, |episode| episode.error_factor.ln())
            .exp()
    }
}

const NOTHING: Episode = Episode {
    pages: Vec::new(),
    from: 0,
    to: 0,
    shift: 0.0,
    decay: 0.0,
    cold: 1.0,
    traffic_factor: 1.0,
    error_factor: 1.0,
    scanned: 0.0,
};

/// Cold caches for some minutes after a deploy, on some pages or on all.
fn deploys(random: &mut Random, episodes: &mut Vec<Episode>) {
    for _ in 0..random.whole(1, 4) {
        let from = random.whole(0, MINUTES);
        let affected = random.between(0.3, 1.0);
        let decay = random.between(0.7, 3.0);
        let strength = random.log_between(1.2, 2.5).ln();
        for page in 0..PAGES {
            if !random.chance(affected) {
                continue;
            }
            episodes.push(Episode {
                pages: vec![page],
                from,
                to: from + 12,
                shift: strength * random.between(0.3, 1.5),
                decay: decay * random.between(0.7, 1.4),
                cold: random.between(1.0, 4.0),
                error_factor: random.between(1.0, 3.0),
                ..NOTHING
            });
        }
    }
}

/// Jobs that slow several pages for some minutes, again and again.
fn batch_jobs(random: &mut Random, episodes: &mut Vec<Episode>, wanders: bool) {
    for _ in 0..random.whole(1, 4) {
        let count = random.whole(3, 16);
        let pages = random.sample(PAGES, count);
        let every = random.pick(&[15, 20, 30, 30, 60, 60]);
        let length = random.whole(1, if wanders { 5 } else { 4 });
        let shift = random.log_between(1.05, 1.5).ln();
        let mut from = random.whole(0, every);
        while from < MINUTES {
            for page in &pages {
                episodes.push(Episode {
                    pages: vec![*page],
                    from,
                    to: from + length,
                    shift: shift * random.between(0.5, 1.5),
                    ..NOTHING
                });
            }
            from += every;
        }
    }
}

/// Bursts of traffic for a minute or two, which slow the page a little.
fn bursts(random: &mut Random, episodes: &mut Vec<Episode>) {
    for page in 0..PAGES {
        let mean = random.between(0.0, 1.5);
        for _ in 0..random.poisson(mean) {
            let from = random.whole(0, MINUTES);
            let length = if random.chance(0.9) { 1 } else { 2 };
            episodes.push(Episode {
                pages: vec![page],
                from,
                to: from + length,
                traffic_factor: random.log_between(1.5, 5.0),
                shift: random.between(0.0, 0.4),
                error_factor: random.between(1.0, 2.0),
                ..NOTHING
            });
        }
    }
    // A page gets slow requests of another kind for one to three minutes, as from a crawler or a large export.
    for _ in 0..random.whole(4, 20) {
        let from = random.whole(0, MINUTES);
        let length = match random.unit() {
            0.0..0.85 => 1,
            0.85..0.99 => 2,
            _ => 3,
        };
        episodes.push(Episode {
            pages: vec![random.whole(0, PAGES)],
            from,
            to: from + length,
            shift: random.log_between(1.2, 4.0).ln(),
            ..NOTHING
        });
    }
}

/// A database that pages share is slow for some minutes.
fn group_trouble(
    random: &mut Random,
    episodes: &mut Vec<Episode>,
    pages: &[Page],
    count: usize,
    lengths: Range<usize>,
) {
    for _ in 0..count {
        let group = random.whole(0, 6);
        let from = random.whole(0, MINUTES);
        let to = from + random.whole(lengths.start, lengths.end);
        let shift = random.log_between(1.2, 2.5).ln();
        for page in (0..PAGES).filter(|page| pages[*page].group == group) {
            episodes.push(Episode {
                pages: vec![page],
                from,
                to,
                shift: shift * random.between(0.3, 1.2),
                error_factor: random.between(1.0, 4.0),
                ..NOTHING
            });
        }
    }
}

/// Clients that retry: twice the traffic for some minutes, which slows the page a little.
fn retries(random: &mut Random, episodes: &mut Vec<Episode>) {
    for _ in 0..12 {
        let from = random.whole(0, MINUTES);
        episodes.push(Episode {
            pages: vec![random.whole(0, PAGES)],
            from,
            to: from + random.whole(3, 12),
            traffic_factor: random.between(1.7, 2.2),
            shift: random.between(0.0, 0.05),
            ..NOTHING
        });
    }
}

/// Scanners, which ask a page for missing items, for a minute or two.
fn scans(random: &mut Random, episodes: &mut Vec<Episode>) {
    for page in 0..PAGES {
        let mean = random.between(0.0, 0.8);
        for _ in 0..random.poisson(mean) {
            let from = random.whole(0, MINUTES);
            let length = if random.chance(0.9) { 1 } else { 2 };
            let factor = random.between(1.2, 3.0);
            episodes.push(Episode {
                pages: vec![page],
                from,
                to: from + length,
                traffic_factor: factor,
                scanned: 1.0 - 1.0 / factor,
                ..NOTHING
            });
        }
    }
}

fn slow_minutes(random: &mut Random) -> Vec<f64> {
    let mut host = vec![0.0; MINUTES];
    let share = random.between(0.02, 0.08);
    for minute in 0..MINUTES {
        if random.chance(share) {
            let length = random.pick(&[1, 1, 1, 1, 2, 3]);
            let shift = random.log_between(1.15, 3.0).ln();
            for slow in host.iter_mut().skip(minute).take(length) {
                *slow = shift;
            }
        }
    }
    host
}
