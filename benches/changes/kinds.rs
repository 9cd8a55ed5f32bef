//! Measures how the detector finds new kinds of errors. Each simulated service has usual kinds, some frequent and some
//! rare. Within a month, new kinds begin.

use std::sync::Arc;

use tower_pulse_detect::detector::Minute;
use tower_pulse_detect::errors::KnownErrors;
use tower_pulse_model::aggregate::Aggregate;

use crate::START;
use crate::rng::Random;
use crate::workload::{PAGES, id_of};

const RUNS: u64 = 8;
const DAY: i64 = 24 * 60;
const MINUTES: i64 = 30 * DAY;
/// The number of kinds that a service has from the start.
const USUAL: usize = 12;
/// The number of kinds that begin later.
const NEW: usize = 10;
/// The most false alarms per 1,000 page-hours.
const MOST: f64 = 1.0;

struct Kind {
    name: Arc<str>,
    page: usize,
    /// Errors per minute.
    rate: f64,
    /// The first minute in which the kind may occur.
    from: i64,
}

fn kinds(random: &mut Random) -> Vec<Kind> {
    let kinds = (0..USUAL + NEW).map(|number| {
        let is_usual = number < USUAL;
        // On average, usual kinds occur at least once in three weeks, and new kinds at least once in 50 minutes.
        let least = if is_usual {
            1.0 / (21 * DAY) as f64
        } else {
            0.02
        };
        let from = random.whole(9 * DAY as usize, 29 * DAY as usize) as i64;
        Kind {
            name: number.to_string().into(),
            page: random.whole(0, PAGES),
            rate: random.log_between(least, 2.0),
            from: if is_usual { 0 } else { from },
        }
    });
    kinds.collect()
}

/// Prints the number of false alarms, and how many new kinds are found. Returns whether the false alarms are within the
/// limit.
pub(crate) fn print(seed: u64) -> bool {
    let (mut false_alarms, mut found) = (0, 0);
    for run in 0..RUNS {
        let mut random = Random::new(seed + run);
        let kinds = kinds(&mut random);
        let mut known = KnownErrors::default();
        for minute in 0..MINUTES {
            let mut errors = Vec::new();
            for kind in kinds.iter().filter(|kind| kind.from <= minute) {
                let count = random.poisson(kind.rate);
                if count > 0 {
                    let mut sums = Aggregate::default();
                    sums.times.count = count;
                    sums.kinds.add(kind.name.clone(), count);
                    errors.push((id_of(kind.page), sums));
                }
            }
            let given = Minute {
                start: START + 60 * minute,
                contexts: errors.iter().map(|(id, sums)| (*id, sums)).collect(),
                instances: Vec::new(),
            };
            let verdicts = known.judge(&given, minute >= DAY);
            let begun = verdicts.iter().filter(|new| new.since == given.start);
            for error in begun.filter_map(|verdict| verdict.error.as_ref()) {
                let is_new = kinds
                    .iter()
                    .any(|kind| kind.name == *error && kind.from > 0);
                found += usize::from(is_new);
                false_alarms += usize::from(!is_new);
            }
        }
    }
    let page_hours = (RUNS * PAGES as u64) as f64 * MINUTES as f64 / 60.0;
    let per_1000 = false_alarms as f64 * 1e3 / page_hours;
    println!(
        "\n| New error | {per_1000:.2} false alarms per 1,000 page-hours (the bench fails beyond {MOST}) | {found} of {} found, in their first minute | {page_hours:.0} page-hours |",
        RUNS as usize * NEW
    );
    per_1000 <= MOST
}
