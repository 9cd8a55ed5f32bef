//! One page of a workload: the number and the durations of its requests.

use crate::rng::Random;

/// The distribution of the time of one request. A value is the logarithm of the ratio to the page's typical time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    LogNormal {
        sigma: f64,
    },
    /// Log-normal, except for a share of slow requests that follow a power law.
    Pareto {
        sigma: f64,
        share: f64,
        alpha: f64,
    },
    /// Hits and misses of a cache.
    Bimodal {
        sigma: f64,
        misses: f64,
        factor: f64,
    },
    /// A fixed part plus an exponential part.
    Shifted {
        fixed: f64,
    },
}

impl Shape {
    pub(crate) fn random(random: &mut Random) -> Self {
        match random.whole(0, 10) {
            0..=2 => Self::log_normal(random),
            3..=5 => Self::pareto(random),
            6..=8 => Self::bimodal(random),
            _ => Self::Shifted {
                fixed: random.between(0.1, 0.8),
            },
        }
    }

    pub(crate) fn log_normal(random: &mut Random) -> Self {
        Self::LogNormal {
            sigma: random.between(0.25, 1.3),
        }
    }

    pub(crate) fn pareto(random: &mut Random) -> Self {
        Self::Pareto {
            sigma: random.between(0.3, 0.9),
            share: random.between(0.02, 0.12),
            alpha: random.between(1.1, 2.0),
        }
    }

    pub(crate) fn bimodal(random: &mut Random) -> Self {
        Self::Bimodal {
            sigma: random.between(0.2, 0.8),
            misses: random.between(0.05, 0.5),
            factor: random.log_between(4.0, 80.0),
        }
    }

    /// A random value. `miss_odds` multiplies the odds of a miss.
    pub(crate) fn draw(self, random: &mut Random, miss_odds: f64) -> f64 {
        match self {
            Self::LogNormal { sigma } => sigma * random.normal(),
            Self::Pareto {
                sigma,
                share,
                alpha,
            } => {
                let usual = sigma * random.normal();
                match random.chance(share) {
                    true => usual + sigma + random.exponential() / alpha,
                    false => usual,
                }
            }
            Self::Bimodal {
                sigma,
                misses,
                factor,
            } => {
                let odds = misses / (1.0 - misses) * miss_odds;
                let usual = sigma * random.normal();
                match random.chance(odds / (1.0 + odds)) {
                    true => usual + factor.ln(),
                    false => usual,
                }
            }
            Self::Shifted { fixed } => (fixed + (1.0 - fixed) * random.exponential()).ln(),
        }
    }
}

/// A random series that returns to 0 (AR(1)), the more slowly the nearer `persistence` is to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wobble {
    pub(crate) sigma: f64,
    pub(crate) persistence: f64,
    pub(crate) is_heavy: bool,
    pub(crate) value: f64,
}

impl Wobble {
    pub(crate) fn next(&mut self, random: &mut Random) -> f64 {
        let noise = if self.is_heavy {
            random.heavy()
        } else {
            random.normal()
        };
        let fresh = self.sigma * (1.0 - self.persistence.powi(2)).sqrt();
        self.value = self.persistence * self.value + fresh * noise;
        self.value
    }
}

/// Two levels of a page's times. The page stays at a level for some minutes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Regime {
    /// The logarithm of the ratio of the other level to the usual one.
    size: f64,
    /// The chance of a switch in a minute.
    switches: f64,
    is_other: bool,
}

impl Regime {
    pub(crate) fn random(random: &mut Random) -> Self {
        Self {
            size: random.between(0.02, 0.08),
            switches: 1.0 / random.between(4.0, 15.0),
            is_other: random.chance(0.5),
        }
    }

    pub(crate) fn next(&mut self, random: &mut Random) -> f64 {
        if self.switches > 0.0 && random.chance(self.switches) {
            self.is_other = !self.is_other;
        }
        if self.is_other { self.size } else { 0.0 }
    }
}

/// The rise and fall of a page's times and traffic within each hour.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Season {
    size: f64,
    traffic: f64,
    phase: f64,
}

impl Season {
    pub(crate) fn random(random: &mut Random) -> Self {
        Self {
            size: random.between(0.0, 0.06),
            traffic: random.between(0.0, 0.5),
            phase: random.between(0.0, std::f64::consts::TAU),
        }
    }

    fn wave(self, minute: usize) -> f64 {
        (std::f64::consts::TAU * minute as f64 / 60.0 + self.phase).sin()
    }

    pub(crate) fn shift(self, minute: usize) -> f64 {
        self.size * self.wave(minute)
    }

    pub(crate) fn traffic(self, minute: usize) -> f64 {
        (self.traffic * self.wave(minute)).exp()
    }
}

/// The requests that a page answers with 4xx.
pub(crate) struct Refusals {
    /// The usual share of these requests.
    pub(crate) share: f64,
    /// The wobble of the odds of a 4xx.
    wobble: Wobble,
}

impl Refusals {
    pub(crate) fn random(random: &mut Random) -> Self {
        Self {
            share: match random.whole(0, 3) {
                0 => 0.0,
                1 => random.log_between(0.001, 0.02),
                _ => random.log_between(0.02, 0.3),
            },
            wobble: Wobble {
                sigma: random.between(0.0, 0.2),
                persistence: random.between(0.0, 0.9),
                is_heavy: false,
                value: 0.0,
            },
        }
    }

    pub(crate) fn next(&mut self, random: &mut Random) -> f64 {
        let odds = self.share / (1.0 - self.share) * self.wobble.next(random).exp();
        odds / (1.0 + odds)
    }
}

/// A page without events and changes.
pub(crate) struct Page {
    pub(crate) shape: Shape,
    /// The typical time of a request, in seconds: the median if `shape` is log-normal.
    pub(crate) median: f64,
    pub(crate) rate: f64,
    pub(crate) error_share: f64,
    pub(crate) wobble: Wobble,
    /// The wobble of the odds of a miss.
    pub(crate) miss_wobble: Wobble,
    pub(crate) rate_wobble: Wobble,
    /// The weight of the wobble that all pages share.
    pub(crate) shared_weight: f64,
    /// The group of pages that share a database.
    pub(crate) group: usize,
    pub(crate) regime: Regime,
    pub(crate) season: Season,
    /// The 0.9-quantile of values drawn from `shape`.
    pub(crate) upper_tenth: f64,
}

impl Page {
    pub(crate) fn find_upper_tenth(&mut self, random: &mut Random) {
        let mut draws: Vec<_> = (0..8_000).map(|_| self.shape.draw(random, 1.0)).collect();
        draws.sort_unstable_by(f64::total_cmp);
        self.upper_tenth = draws[7_200];
    }
}
