//! Measures how many changes of a simulated workload the change detector finds, and how many false alarms the detector
//! raises, compared with three common alert rules: `cargo bench -p pulse-benches --bench changes`. Seeds are printed;
//! `CHANGES_SEED=7` starts with another seed, `CHANGES_RUNS=100` makes 100 runs of each design (kind of noise), and
//! `CHANGES_NOISE=Plain` tries only that design.
//!
//! Read `page`, `events`, `pauses` and `labels` (the parts of a workload), `workload`, `baselines` (the alert rules),
//! `score`, `report`, then `kinds` (new kinds of errors), `real` (latencies of a real service) and `cost`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a bench: a panic is a failed bench"
)]

mod baselines;
mod cost;
mod events;
mod kinds;
mod labels;
mod page;
mod pauses;
mod real;
mod report;
mod rng;
mod score;
mod workload;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baselines::{Baseline, Rule};
use labels::LabelKind;
use score::{Follower, Ongoing, Score};
use tower_pulse_detect::change::ChangeKind;
use tower_pulse_detect::detector::{Detector, DetectorState, Minute, Verdict};
use tower_pulse_model::records::RecordId;
use workload::{Design, MINUTES, PAGES, Run, id_of};

/// The scores of the detector and of the three rules, and the detector's time.
#[derive(Default)]
pub(crate) struct Scores {
    pub(crate) detector: Score,
    pub(crate) rules: [Score; 3],
    pub(crate) judging: Duration,
    pub(crate) minutes: u32,
}

impl Scores {
    fn add(&mut self, other: Self) {
        self.detector.add(other.detector);
        for (mine, theirs) in self.rules.iter_mut().zip(other.rules) {
            mine.add(theirs);
        }
        self.judging += other.judging;
        self.minutes += other.minutes;
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn main() {
    // Without `--bench`, as in `cargo test --benches`, only check that the bench starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let seed = setting("CHANGES_SEED", 20_261_122);
    let runs = setting("CHANGES_RUNS", 48);
    let chosen = std::env::var("CHANGES_NOISE").unwrap_or_default();
    let designs = Design::ALL.into_iter();
    let designs = designs.filter(|design| chosen.is_empty() || format!("{design:?}") == chosen);
    let designs: Vec<_> = designs.collect();
    assert!(
        !designs.is_empty(),
        "CHANGES_NOISE is one of {:?}",
        Design::ALL
    );
    // Of the designs, only `Plain`, on which the detector is tuned, and `Refusals` can fail the bench.
    let mut is_accepted = true;
    let scores = designs.into_iter().map(|design| {
        let scores = run_all(design, seed, runs);
        is_accepted &= report::print(design, seed, runs, &scores);
        (design, scores)
    });
    let scores: Vec<_> = scores.collect();
    report::summary(&scores);
    is_accepted &= kinds::print(seed);
    real::print(seed);
    let is_cheap = cost::print(seed);
    if !(is_accepted && is_cheap) {
        println!("NOT ACCEPTED");
        std::process::exit(1);
    }
}

/// Makes runs on all processors, with seeds from `seed` on.
fn run_all(design: Design, seed: u64, runs: u64) -> Scores {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        let mut scores = Scores::default();
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= runs {
                return scores;
            }
            scores.add(run_one(design, seed + run));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut scores = Scores::default();
        for thread in threads {
            scores.add(thread.join().unwrap());
        }
        scores
    })
}

fn run_one(design: Design, seed: u64) -> Scores {
    let mut run = Run::new(seed, design);
    let mut detector = Detector::new(DetectorState::default());
    let mut baselines = Rule::ALL.map(Baseline::new);
    let mut follower = Follower::new(&run.labels);
    let mut rule_followers = Rule::ALL.map(|_| Follower::new(&run.labels));
    let mut scores = Scores::default();
    for minute in 0..MINUTES {
        let pages = run.next();
        let contexts = pages.iter().map(|(page, sums)| (id_of(*page), sums));
        let given = Minute {
            start: START + 60 * minute as i64,
            contexts: contexts.collect(),
            instances: Vec::new(),
        };
        let before = Instant::now();
        let verdicts = detector.judge(&given);
        scores.judging += before.elapsed();
        scores.minutes += 1;
        let ongoing: Vec<_> = verdicts.iter().filter_map(ongoing).collect();
        scores.detector.other_verdicts += verdicts.len() - ongoing.len();
        let watched = detector.watched();
        let watched = watched.iter().filter_map(|(id, _)| page_of(*id));
        follower.watched(minute, watched);
        follower.minute(minute, &ongoing);
        for (baseline, follower) in baselines.iter_mut().zip(&mut rule_followers) {
            let slower = baseline.judge(&pages).into_iter().map(|page| Ongoing {
                page,
                kind: LabelKind::Slower,
                since: None,
                ratio: f64::NAN,
            });
            follower.minute(minute, &slower.collect::<Vec<_>>());
        }
    }
    let page_hours = (PAGES * MINUTES) as f64 / 60.0;
    let others = scores.detector.other_verdicts;
    scores.detector = follower.finish(page_hours);
    scores.detector.other_verdicts = others;
    scores.rules = rule_followers.map(|follower| follower.finish(page_hours));
    scores
}

const START: i64 = 1_800_000_000;

fn page_of(id: RecordId) -> Option<usize> {
    (0..PAGES).find(|page| id_of(*page) == id)
}

fn ongoing(verdict: &Verdict) -> Option<Ongoing> {
    let page = page_of(verdict.context)?;
    let kind = match verdict.kind {
        ChangeKind::Slower => LabelKind::Slower,
        ChangeKind::Faster => LabelKind::Faster,
        ChangeKind::Failing => LabelKind::Failing,
        ChangeKind::Surging => LabelKind::Surge,
        ChangeKind::Refusing => LabelKind::Refusing,
        _ => return None,
    };
    Some(Ongoing {
        page,
        kind,
        since: Some((verdict.since - START).div_euclid(60)),
        ratio: verdict.ratio,
    })
}
