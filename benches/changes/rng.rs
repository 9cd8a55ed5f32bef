//! Random numbers of the distributions that a workload needs. The same seed gives the same numbers.

pub(crate) struct Random {
    uniform: fastrand::Rng,
    /// The second number of the last pair of normal numbers.
    spare: Option<f64>,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            uniform: fastrand::Rng::with_seed(seed),
            spare: None,
        }
    }

    /// A number from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.uniform.f64()
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A number whose logarithm is uniform.
    pub(crate) fn log_between(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    /// A whole number from `low` to below `high`.
    pub(crate) fn whole(&mut self, low: usize, high: usize) -> usize {
        self.uniform.usize(low..high.max(low + 1))
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.whole(0, from.len())]
    }

    /// A standard normal number (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.unit()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }

    /// Student's t with 3 degrees of freedom, scaled to variance 1: noise with heavy tails.
    pub(crate) fn heavy(&mut self) -> f64 {
        let chi: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
        self.normal() / (chi / 3.0).sqrt() / 3f64.sqrt()
    }

    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    pub(crate) fn poisson(&mut self, mean: f64) -> u64 {
        if mean > 60.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0) as u64;
        }
        let (mut left, mut count) = (mean, 0);
        loop {
            left -= self.exponential();
            if left < 0.0 {
                return count;
            }
            count += 1;
        }
    }

    pub(crate) fn binomial(&mut self, n: u64, p: f64) -> u64 {
        (0..n).filter(|_| self.chance(p)).count() as u64
    }

    /// `count` different numbers below `below`.
    pub(crate) fn sample(&mut self, below: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<_> = (0..below).collect();
        self.uniform.shuffle(&mut all);
        all.truncate(count);
        all
    }
}
