//! Memory and the journal's length, sampled between faults, and the rules by which they are flat.
//!
//! The first third of a run is its warm-up. The median of the last third may be above the median of the second
//! third by what [`Series`] allows: an allowance for noise, and for Redis the growth of each minute that is by design.

use std::time::{Duration, Instant};

use crate::fault::Site;
use crate::faults::service::PREFIX;
use crate::rig::fold::JournalKeys;
use crate::rig::server::issue;

/// A process is sampled from this age on: before, it takes up the memory that it needs.
const GROWN_UP: Duration = Duration::from_secs(30);

/// One measurement over a run, and by how much its median may grow from the second third to the last.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    /// The allowed growth, as a share of the median.
    share: f64,
    fixed: f64,
    /// The allowed growth for each minute between the middles of the two thirds.
    per_minute: f64,
    samples: Vec<(Duration, u64)>,
}

impl Series {
    fn new(name: impl Into<String>, [share, fixed, per_minute]: [f64; 3]) -> Self {
        Self {
            name: name.into(),
            share,
            fixed,
            per_minute,
            samples: Vec::new(),
        }
    }

    /// The medians of the second third and of the last third, and what is allowed for the latter. `None` if a third of
    /// the run has no samples.
    pub fn medians(&self, length: Duration) -> Option<[u64; 3]> {
        let third = length / 3;
        let median = |from: Duration, to: Duration| {
            let within = self
                .samples
                .iter()
                .filter(|(at, _)| (from..to).contains(at));
            let mut values: Vec<u64> = within.map(|(_, value)| *value).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied()
        };
        let second = median(third, third * 2)?;
        let last = median(third * 2, Duration::MAX)?;
        let minutes = third.as_secs_f64() / 60.0;
        let allowed = second as f64 * (1.0 + self.share) + self.fixed + self.per_minute * minutes;
        Some([second, last, allowed as u64])
    }
}

/// All that is sampled: the memory of each instance, that of Redis, and the journal.
#[derive(Debug)]
pub struct Samples {
    start: Instant,
    pub series: Vec<Series>,
}

impl Samples {
    pub fn new(site: &Site) -> Self {
        let names = site.fleet.iter().map(|instance| instance.life.name());
        let rss = |name| Series::new(format!("memory of {name}, kB"), [0.1, 4_096.0, 0.0]);
        // Each minute adds a table of records until there are 130, and slices to the counters until each precision has
        // 120 of them.
        let used_memory = Series::new("used_memory of Redis, kB", [0.1, 256.0, 64.0]);
        let journal = Series::new("entries of the journal", [0.0, 64.0, 0.0]);
        Self {
            start: Instant::now(),
            series: names.map(rss).chain([used_memory, journal]).collect(),
        }
    }

    /// Samples everything once. No fault may be present.
    pub async fn take(&mut self, site: &Site) {
        let conn = &mut site.server.connection().await;
        let entries: u64 = issue(conn, "XLEN", JournalKeys::below(PREFIX).journal).await;
        let rss = site.fleet.iter().map(|instance| {
            let is_grown_up = instance.began.elapsed() > GROWN_UP;
            is_grown_up.then(|| instance.process.rss_bytes() / 1024)
        });
        let used_memory = site.server.used_memory().await / 1024;
        let values = rss.chain([Some(used_memory), Some(entries)]);
        for (series, value) in self.series.iter_mut().zip(values) {
            let sample = value.map(|value| (self.start.elapsed(), value));
            series.samples.extend(sample);
        }
    }
}
