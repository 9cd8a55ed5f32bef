//! Memory and the journal's length, sampled between faults, and the rules by which they are flat.
//!
//! The first third of a run is its warm-up. The median of the last third may be above the median of the second
//! third by what [`Rule`] allows: an allowance for noise, and for Redis what each minute adds by design.

use std::time::{Duration, Instant};

use crate::fault::Site;
use crate::read::PREFIX;
use crate::rig::fold::JournalKeys;
use crate::rig::server::issue;

/// A process counts from this age on: until then it takes up the memory that it then keeps.
const GROWN_UP: Duration = Duration::from_secs(30);

/// By how much a median may grow from the second third to the last.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// A share of the median.
    share: f64,
    fixed: f64,
    /// For each minute between the middles of the two thirds.
    per_minute: f64,
}

/// The memory of an instance (VmRSS), in bytes.
pub const RSS: Rule = Rule {
    share: 0.10,
    fixed: 4.0 * 1024.0 * 1024.0,
    per_minute: 0.0,
};

/// `used_memory` of Redis, in bytes. Each minute adds a table of records until there are 130, and slices to the
/// counters until each precision has 120 of them.
pub const USED_MEMORY: Rule = Rule {
    share: 0.10,
    fixed: 256.0 * 1024.0,
    per_minute: 64.0 * 1024.0,
};

/// Entries of the journal.
pub const JOURNAL: Rule = Rule {
    share: 0.0,
    fixed: 64.0,
    per_minute: 0.0,
};

/// One measurement over a run.
#[derive(Clone, Debug, Default)]
pub struct Series(Vec<(Duration, u64)>);

/// The medians of the second and the last third of a run.
#[derive(Clone, Copy, Debug)]
pub struct Medians {
    pub second: u64,
    pub last: u64,
    pub most: u64,
    /// What the rule allows for the last third.
    pub allowed: u64,
}

impl Series {
    fn push(&mut self, at: Duration, value: u64) {
        self.0.push((at, value));
    }

    /// `None` if a third of the run has no samples.
    pub fn medians(&self, length: Duration, rule: Rule) -> Option<Medians> {
        let third = length / 3;
        let median = |from: Duration, to: Duration| {
            let within = self.0.iter().filter(|(at, _)| (from..to).contains(at));
            let mut values: Vec<u64> = within.map(|(_, value)| *value).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied()
        };
        let second = median(third, third * 2)?;
        let last = median(third * 2, Duration::MAX)?;
        let minutes = third.as_secs_f64() / 60.0;
        let allowed = second as f64 * (1.0 + rule.share) + rule.fixed + rule.per_minute * minutes;
        Some(Medians {
            second,
            last,
            most: self.0.iter().map(|(_, value)| *value).max()?,
            allowed: allowed as u64,
        })
    }
}

/// All that is sampled.
#[derive(Debug)]
pub struct Samples {
    start: Instant,
    /// By instance.
    pub rss: Vec<Series>,
    pub used_memory: Series,
    pub journal: Series,
}

impl Samples {
    pub fn new(instances: usize) -> Self {
        Self {
            start: Instant::now(),
            rss: vec![Series::default(); instances],
            used_memory: Series::default(),
            journal: Series::default(),
        }
    }

    /// Samples everything once. No fault may be present.
    pub async fn take(&mut self, site: &Site) {
        let at = self.start.elapsed();
        for (instance, series) in site.fleet.iter().zip(&mut self.rss) {
            if instance.began.elapsed() > GROWN_UP {
                series.push(at, instance.process.rss_bytes());
            }
        }
        self.used_memory.push(at, site.server.used_memory().await);
        self.journal.push(at, journal_entries(site).await);
    }
}

/// The number of entries in the journal.
pub async fn journal_entries(site: &Site) -> u64 {
    issue(
        &mut site.server.connection().await,
        "XLEN",
        JournalKeys::below(PREFIX).journal,
    )
    .await
}
