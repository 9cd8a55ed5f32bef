use std::time::Duration;

/// The most delays that are kept for the median: one for each 100 ms of a minute.
const MAX_DELAYS: usize = 600;

/// The scheduling delays of a minute, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Delays {
    micros: Vec<u32>,
    worst: u64,
}

impl Delays {
    pub(super) fn add(&mut self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.worst = self.worst.max(micros);
        if self.micros.len() < MAX_DELAYS {
            self.micros.push(u32::try_from(micros).unwrap_or(u32::MAX));
        }
    }

    /// Takes all delays, and returns the median and the worst; `None` if there are no delays.
    pub(super) fn take(&mut self) -> Option<(u64, u64)> {
        let mut delays = std::mem::take(&mut self.micros);
        let worst = std::mem::take(&mut self.worst);
        if delays.is_empty() {
            return None;
        }
        let middle = delays.len() / 2;
        let (_, median, _) = delays.select_nth_unstable(middle);
        Some((u64::from(*median), worst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_worst_are_taken_once() {
        let mut delays = Delays::default();
        assert_eq!(delays.take(), None);
        for millis in [1, 40, 2, 3, 900] {
            delays.add(Duration::from_millis(millis));
        }
        assert_eq!(delays.take(), Some((3_000, 900_000)));
        assert_eq!(delays.take(), None);
        for millis in 0..5_000 {
            delays.add(Duration::from_millis(millis));
        }
        assert_eq!(delays.micros.len(), MAX_DELAYS);
        assert_eq!(delays.take(), Some((300_000, 4_999_000)));
        delays.add(Duration::MAX);
        assert_eq!(delays.take(), Some((u64::from(u32::MAX), u64::MAX)));
    }
}
