//! The expected hourly statistics, and the expected numbers of late, skewed and omitted samples. Each step that takes
//! effect updates these expectations. A failover restores the expectations of its snapshot.

use std::collections::BTreeMap;

use tower_pulse_core::store::journal::FoldStep;
use tower_pulse_model::context::{Kind, Metric};
use tower_pulse_model::slice::HOUR;

/// The requests of one context by hour, as the book's statistics count them.
#[derive(Clone, Debug, Default)]
pub struct Hours {
    start: Option<i64>,
    previous: Option<i64>,
    pub current: u64,
    pub last: u64,
    /// The requests of hours that later hours have replaced.
    pub replaced: u64,
    pub late: u64,
}

impl Hours {
    fn add(&mut self, hour: i64, n: u64) {
        match (self.start, self.previous) {
            (None, _) => (self.start, self.current) = (Some(hour), n),
            (Some(start), _) if hour > start => {
                self.replaced += self.last;
                (self.last, self.previous) = (self.current, Some(start));
                (self.current, self.start) = (n, Some(hour));
            }
            (Some(start), _) if hour == start => self.current += n,
            (_, Some(previous)) if hour < previous => self.late += n,
            (_, Some(previous)) if hour == previous => self.last += n,
            _ => {
                self.replaced += self.last;
                (self.last, self.previous) = (n, Some(hour));
            }
        }
    }

    pub fn sum(&self) -> u64 {
        self.current + self.last + self.replaced + self.late
    }
}

/// A slice of a counter that temporarily holds garbage.
#[derive(Clone, Debug)]
pub struct Garbage {
    pub context: String,
    pub slice: i64,
    /// The value that the garbage has replaced.
    pub before: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub hours: BTreeMap<String, Hours>,
    pub late: u64,
    /// Requests that were late when they were appended.
    pub late_at_append: u64,
    pub skewed: u64,
    pub garbage: Option<Garbage>,
    /// How often data was omitted because of the garbage.
    pub quarantined: u64,
    pub omitted: BTreeMap<String, u64>,
    /// Entries of a later version.
    pub newer: u64,
}

impl Expected {
    pub fn apply(&mut self, step: &FoldStep) {
        self.late += step.additions.late;
        self.late_at_append += step.additions.late;
        self.skewed += step.additions.skewed;
        for added in &step.additions.statistics {
            let name = added.context.name.to_string();
            let hours = self.hours.entry(name).or_default();
            let late_before = hours.late;
            for (hour, times) in &added.hours {
                hours.add(*hour, times.count as u64);
            }
            if added.context.kind != Kind::All {
                self.late += hours.late - late_before;
            }
        }
        if let Some(garbage) = &self.garbage {
            assert_eq!(garbage.slice % HOUR, 0);
            let name = Metric::Hits.counter(&garbage.context);
            let slices = step.additions.counters.iter();
            let slices = slices.filter(|((precision, slice), _)| {
                (i64::from(precision.seconds), *slice) == (HOUR, garbage.slice)
            });
            let added = slices.flat_map(|(_, added)| added);
            for (_, hits) in added.filter(|(counter, _)| **counter == name) {
                self.quarantined += 1;
                let omitted = self.omitted.entry(garbage.context.clone()).or_default();
                *omitted += u64::try_from(*hits).unwrap();
            }
        }
    }
}
