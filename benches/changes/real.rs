//! Latencies of a real service: series of the Cloud Monitoring Dataset, with the anomalies that people labelled.
//!
//! `CHANGES_SERIES` names a folder of `*.csv` with time, mean milliseconds and label. The default is the folder
//! `shared/telemetry` beside the project. Each series stands for a page. The points of a series are an hour apart, but
//! count as minutes.

use std::path::{Path, PathBuf};

use tower_pulse_detect::change::ChangeKind;
use tower_pulse_detect::detector::{Detector, DetectorState, Minute};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::histogram::{BUCKETS, Histogram, bucket_of};
use tower_pulse_model::outcome::Outcome;

use crate::START;
use crate::rng::Random;
use crate::workload::id_of;

/// The number of runs of each series, each with different random requests.
const RUNS: u64 = 8;
const RATE: f64 = 60.0;
/// The standard deviation of the logarithm of the request times.
const SIGMA: f64 = 0.5;
/// An alarm finds a label until this many minutes after the label's end. An alarm that is farther from all labels is
/// unlabelled.
const MATCH_MINUTES: usize = 10;
/// The fewest minutes of a clear label.
const CLEAR_MINUTES: usize = 3;
/// The least ratio of the median of a clear label to the median of the 60 minutes before the label.
const CLEAR_RATIO: f64 = 1.15;

struct Series {
    /// The mean seconds of each minute.
    means: Vec<f64>,
    /// The first and the last minute of each label. Two labels with only one unlabelled minute between them count as
    /// one label.
    labels: Vec<(usize, usize)>,
}

impl Series {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let points = text.lines().skip(1).map(|line| {
            let mut fields = line.rsplit(',');
            let is_labelled = fields.next().unwrap().trim() != "0";
            let millis: f64 = fields.next().unwrap().parse().unwrap();
            (millis * 1e-3, is_labelled)
        });
        let points: Vec<_> = points.collect();
        let mut labels: Vec<(usize, usize)> = Vec::new();
        let labelled = points.iter().enumerate().filter(|(_, point)| point.1);
        for (minute, _) in labelled {
            match labels.last_mut() {
                Some((_, to)) if *to + 2 >= minute => *to = minute,
                _ => labels.push((minute, minute)),
            }
        }
        let means = points.into_iter().map(|(mean, _)| mean).collect();
        Self { means, labels }
    }

    fn is_clear(&self, (from, to): (usize, usize)) -> bool {
        let labelled = &self.means[from..=to];
        let before = median(&self.means[from.saturating_sub(60)..from]);
        labelled.len() >= CLEAR_MINUTES && median(labelled) >= CLEAR_RATIO * before
    }
}

/// The minutes in which the detector began to find a page with this series slower.
fn alarms(series: &Series, random: &mut Random) -> Vec<usize> {
    let mut detector = Detector::new(DetectorState::default());
    let mut was_slower = false;
    let mut alarms = Vec::new();
    for (minute, mean) in series.means.iter().enumerate() {
        let sums = requests(*mean, random);
        let verdicts = detector.judge(&Minute {
            start: START + 60 * minute as i64,
            contexts: vec![(id_of(0), &sums)],
            instances: Vec::new(),
        });
        let mut slower = verdicts
            .iter()
            .filter(|verdict| verdict.kind == ChangeKind::Slower);
        let is_slower = slower.next().is_some();
        if is_slower && !was_slower {
            alarms.push(minute);
        }
        was_slower = is_slower;
    }
    alarms
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn requests(mean: f64, random: &mut Random) -> Aggregate {
    let mut aggregate = Aggregate::default();
    let mut counts = vec![0; BUCKETS];
    for _ in 0..random.poisson(RATE) {
        let seconds = mean * (SIGMA * random.normal() - SIGMA * SIGMA / 2.0).exp();
        let nanos = (seconds * 1e9) as u64;
        counts[bucket_of(nanos)] += 1;
        aggregate.times.record(nanos);
        aggregate.outcomes.record(Outcome::Success, false);
    }
    aggregate.histogram = Histogram::from_counts(0, &counts);
    aggregate
}

/// Prints how many clear labels are found, and the alarms far from any label.
pub(crate) fn print(seed: u64) {
    let folder = std::env::var_os("CHANGES_SERIES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/telemetry"),
        PathBuf::from,
    );
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!(
            "\nno real series: {} is not a folder (CHANGES_SERIES)",
            folder.display()
        );
        return;
    };
    let files = files.map(|file| file.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|end| end == "csv"))
        .collect();
    files.sort_unstable();
    let all: Vec<_> = files.iter().map(|file| Series::read(file)).collect();
    let (mut found, mut clear, mut unlabelled, mut minutes) = (0, 0, 0, 0);
    for (series, seed) in all
        .iter()
        .flat_map(|series| (seed..seed + RUNS).map(move |seed| (series, seed)))
    {
        let alarms = alarms(series, &mut Random::new(seed));
        minutes += series.means.len();
        let labels = series
            .labels
            .iter()
            .filter(|label| series.is_clear(**label));
        for (from, to) in labels {
            clear += 1;
            found += usize::from(
                alarms
                    .iter()
                    .any(|alarm| (*from..=to + MATCH_MINUTES).contains(alarm)),
            );
        }
        let is_far = |alarm: &&usize| {
            let mut labels = series.labels.iter();
            !labels.any(|(from, to)| {
                (from.saturating_sub(MATCH_MINUTES)..=to + MATCH_MINUTES).contains(*alarm)
            })
        };
        unlabelled += alarms.iter().filter(is_far).count();
    }
    println!(
        "\nreal latencies, {} series: {:.1} of {} clear labels found, {:.0} unlabelled alarms \
         per 1,000 page-hours (goal: at least 14 of 19 found, at most 100 alarms)",
        files.len(),
        found as f64 / RUNS as f64,
        clear / RUNS as usize,
        unlabelled as f64 * 6e4 / minutes as f64
    );
}
