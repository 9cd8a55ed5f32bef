//! A process that stops at a steady interval.

use crate::rng::Random;

pub(crate) struct Pauses {
    /// The seconds between the starts of two pauses.
    every: f64,
    /// The length of a pause, in seconds.
    length: f64,
}

impl Pauses {
    pub(crate) fn random(random: &mut Random) -> Self {
        Self {
            every: random.log_between(7.0, 90.0),
            length: random.log_between(0.05, 0.8),
        }
    }

    /// The seconds that a request of this minute waits.
    pub(crate) fn wait(&self, minute: usize, random: &mut Random) -> f64 {
        let begun = |minute: usize| (60.0 * minute as f64 / self.every).floor();
        let paused = (begun(minute + 1) - begun(minute)) * self.length / 60.0;
        match random.chance(paused) {
            true => random.between(0.0, self.length),
            false => 0.0,
        }
    }
}
