//! Samples memory and the length of the journal between faults, to check that they do not grow.
//!
//! The first third of a run is its warm-up. The median of the last third may exceed the median of the second third by
//! an allowance for noise. Redis also has an allowance for each minute, because its data grows in the first hours.

use std::time::{Duration, Instant};

use super::fault::Site;
use crate::faults::service::PREFIX;
use crate::rig::fold::JournalKeys;
use crate::rig::server::issue;

/// Only older processes are sampled: a younger process still allocates the memory that it needs.
const WARM_UP: Duration = Duration::from_secs(30);

/// The samples of one number, and the allowed growth of its median between the last two thirds of the run.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    /// The allowed growth: a share of the median, a fixed amount, and an amount for each minute between the middles of
    /// the two thirds.
    allowed: [f64; 3],
    samples: Vec<(Duration, u64)>,
}

impl Series {
    fn new(name: impl Into<String>, allowed: [f64; 3]) -> Self {
        Self {
            name: name.into(),
            allowed,
            samples: Vec::new(),
        }
    }

    /// The medians of the second and of the last third, and the highest allowed median of the last third. `None` if one
    /// of these thirds has no samples.
    pub fn medians(&self, length: Duration) -> Option<[u64; 3]> {
        let third = length / 3;
        let median = |from: Duration, to: Duration| {
            let within = self.samples.iter();
            let within = within.filter(|(at, _)| (from..to).contains(at));
            let mut values: Vec<u64> = within.map(|(_, value)| *value).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied()
        };
        let second = median(third, third * 2)?;
        let last = median(third * 2, Duration::MAX)?;
        let minutes = third.as_secs_f64() / 60.0;
        let [share, fixed, per_minute] = self.allowed;
        let allowed = second as f64 * (1.0 + share) + fixed + per_minute * minutes;
        Some([second, last, allowed as u64])
    }
}

/// The samples of all numbers: the memory of each instance, the memory of Redis, and the length of the journal.
#[derive(Debug)]
pub struct Samples {
    start: Instant,
    pub series: Vec<Series>,
}

impl Samples {
    pub fn new(site: &Site) -> Self {
        let names = site.fleet.iter().map(|instance| instance.life.name());
        let rss = |name| Series::new(format!("memory of {name}, kB"), [0.1, 4_096.0, 0.0]);
        // Each minute adds a table of records, of which 130 are kept, and slices of counters, of which 120 of each
        // precision are kept.
        let used_memory = Series::new("used_memory of Redis, kB", [0.1, 256.0, 64.0]);
        let journal = Series::new("entries of the journal", [0.0, 64.0, 0.0]);
        Self {
            start: Instant::now(),
            series: names.map(rss).chain([used_memory, journal]).collect(),
        }
    }

    /// Takes one sample of each number. Redis must be available.
    pub async fn take(&mut self, site: &Site) {
        let conn = &mut site.server.connection().await;
        let entries: u64 = issue(conn, "XLEN", JournalKeys::below(PREFIX).journal).await;
        let rss = site.fleet.iter().map(|instance| {
            let is_warm = instance.began.elapsed() > WARM_UP;
            is_warm.then(|| instance.process.rss_bytes() / 1024)
        });
        let used_memory = site.server.used_memory().await / 1024;
        let values = rss.chain([Some(used_memory), Some(entries)]);
        for (series, value) in self.series.iter_mut().zip(values) {
            let sample = value.map(|value| (self.start.elapsed(), value));
            series.samples.extend(sample);
        }
    }
}
