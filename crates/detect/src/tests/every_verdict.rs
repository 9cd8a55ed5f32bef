//! Every verdict on services that are drawn from a seed, as text. If a figure changes, a line of `verdicts.txt`
//! differs.

use std::fmt::Write as _;

use super::*;

const VERDICTS: &str = include_str!("verdicts.txt");

const SEEDS: std::ops::Range<u64> = 0..10;
const MINUTES: i64 = 260;
const INSTANCES: usize = 3;

#[derive(Clone, Copy)]
enum Event {
    /// Requests take this many times as long.
    Slower(f64),
    /// The slowest tenth of the requests takes this many times as long.
    SlowTail(f64),
    /// Requests take ever longer, up to this many times as long.
    Slowing(f64),
    /// Requests come this many times as often.
    Busier(f64),
    /// This share of the requests fails.
    Failing(f64),
    Silent,
}

struct Happening {
    event: Event,
    minutes: std::ops::Range<i64>,
    /// `None` for all pages.
    page: Option<usize>,
    /// `None` for all instances.
    instance: Option<usize>,
}

struct Service {
    random: fastrand::Rng,
    /// The requests per minute, and the seconds per request, of each page.
    pages: Vec<(f64, f64)>,
    happenings: Vec<Happening>,
}

impl Service {
    fn drawn(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let pages = (0..random.usize(4..9)).map(|_| {
            let rate = random.choice([3.0, 20.0, 60.0, 150.0]).unwrap_or(20.0);
            (rate, 0.01 + 0.2 * random.f64())
        });
        let pages: Vec<_> = pages.collect();
        let happenings = (0..random.usize(2..6)).map(|_| {
            let from = random.i64(25..MINUTES - 10);
            let event = match random.u8(0..9) {
                0 => Event::Slower(0.3 + 0.5 * random.f64()),
                1 | 2 => Event::Slower(1.2 + 2.0 * random.f64()),
                3 => Event::SlowTail(2.0 + 6.0 * random.f64()),
                4 => Event::Slowing(1.5 + 2.0 * random.f64()),
                5 => Event::Busier(0.2 + 8.0 * random.f64()),
                6 | 7 => Event::Failing(0.05 + 0.5 * random.f64()),
                _ => Event::Silent,
            };
            Happening {
                event,
                minutes: from..from + random.i64(3..120),
                page: (random.u8(0..5) > 0).then(|| random.usize(..pages.len())),
                instance: (random.u8(0..3) == 0).then(|| random.usize(..INSTANCES)),
            }
        });
        let happenings: Vec<_> = happenings.collect();
        Self {
            random,
            pages,
            happenings,
        }
    }

    fn requests(&mut self, minute: i64, number: usize, instance: usize) -> Aggregate {
        let (mut rate, seconds) = self.pages[number];
        rate /= INSTANCES as f64;
        let (mut slower, mut slow_tail, mut failing) = (1.0, 3.0, 0.01);
        for happening in &self.happenings {
            let (minutes, on) = (&happening.minutes, happening.instance);
            let is_page = happening.page.is_none_or(|page| page == number);
            if !minutes.contains(&minute) || !is_page || on.is_some_and(|on| on != instance) {
                continue;
            }
            let passed = (minute - minutes.start) as f64 / (minutes.end - minutes.start) as f64;
            match happening.event {
                Event::Slower(ratio) => slower *= ratio,
                Event::SlowTail(ratio) => slow_tail *= ratio,
                Event::Slowing(ratio) => slower *= 1.0 + (ratio - 1.0) * passed,
                Event::Busier(ratio) => rate *= ratio,
                Event::Failing(share) => failing = share,
                Event::Silent => rate = 0.0,
            }
        }
        let count = (rate * (0.8 + 0.4 * self.random.f64())).round() as u64;
        sums_of((0..count).map(|_| {
            let is_tail = self.random.f64() < 0.1;
            let tail = if is_tail { slow_tail } else { 1.0 };
            let nanos = (1e9 * seconds * slower * tail * (0.6 + 0.8 * self.random.f64())) as u64;
            (nanos, self.random.f64() < failing)
        }))
    }
}

/// Formats a figure with four digits, because further digits differ between systems.
fn digits(figure: f64) -> String {
    format!("{figure:.3e}")
}

fn details_of(verdict: &Verdict) -> String {
    let named = [
        ("then", verdict.then),
        ("now", verdict.now),
        ("ratio", verdict.ratio),
        ("confidence", verdict.confidence),
        ("mean then", verdict.mean_then),
        ("mean now", verdict.mean_now),
        ("taken", verdict.cost.taken),
        ("from traffic", verdict.cost.from_traffic),
        ("from code", verdict.cost.from_code),
    ];
    let named = named.map(|(name, figure)| format!("{name} {}", digits(figure)));
    format!(
        "detected {}{} requests {} minutes {} {}",
        minute_of(verdict.detected),
        if verdict.is_tail { " tail" } else { "" },
        verdict.requests,
        verdict.minutes,
        named.join(" ")
    )
}

fn check(verdict: &Verdict) {
    let (then, now, ratio) = (verdict.then, verdict.now, verdict.ratio);
    let (from_traffic, from_code) = (verdict.cost.from_traffic, verdict.cost.from_code);
    let taken = verdict.cost.taken;
    let figures = [then, now, ratio, taken, from_traffic, from_code];
    let is_finite = figures.iter().all(|figure| figure.is_finite());
    assert!(is_finite && then >= 0.0 && now >= 0.0, "{verdict:?}");
    assert!(then == 0.0 || ratio == now / then, "{verdict:?}");
    assert!((0.0..=1.0).contains(&verdict.confidence), "{verdict:?}");
    let agrees = match verdict.kind {
        ChangeKind::Faster => now <= then && from_code <= 0.0,
        ChangeKind::Slower | ChangeKind::Surging => now >= then && from_code >= 0.0,
        // An instance that fails may be faster.
        ChangeKind::Instance => now >= then && from_traffic == 0.0,
        ChangeKind::Failing | ChangeKind::Refusing => now >= then,
        ChangeKind::Silent => now <= then && from_code == 0.0,
        ChangeKind::NewError => false,
    };
    let whole = taken * (1.0 + 1e-9);
    let is_part = from_traffic + from_code <= whole && from_code <= whole;
    assert!(agrees && is_part, "{verdict:?}");
}

fn minute_of(time: i64) -> i64 {
    (time - START) / 60
}

fn transcript(seed: u64) -> String {
    let mut service = Service::drawn(seed);
    let count = service.pages.len();
    let name = |id: RecordId| {
        let number = (0..count).find(|number| page(*number) == id);
        number.map_or("all".to_owned(), |number| format!("page {number}"))
    };
    let mut detector = Detector::default();
    let mut lines = String::new();
    let mut ongoing: Vec<String> = Vec::new();
    for minute in 0..MINUTES {
        let start = START + 60 * minute;
        let (mut by_page, mut merged) = (Vec::new(), Vec::new());
        for number in 0..count {
            let requests = |instance| service.requests(minute, number, instance);
            let of_page: Vec<_> = (0..INSTANCES).map(requests).collect();
            let mut all = Aggregate::default();
            of_page.iter().for_each(|sums| all.merge(sums));
            merged.push((page(number), all));
            by_page.push((page(number), of_page));
        }
        let instances = (0..INSTANCES).map(|instance| InstanceMinute {
            instance: format!("web-{instance}").into(),
            contexts: (by_page.iter().map(|(id, sums)| (*id, &sums[instance]))).collect(),
        });
        let with_requests = merged.iter().filter(|(_, sums)| sums.times.count > 0);
        let mut verdicts = detector.judge(&Minute {
            start,
            contexts: with_requests.map(|(id, sums)| (*id, sums)).collect(),
            instances: instances.collect(),
        });
        let about = |verdict: &Verdict| {
            let instance = verdict.instance.as_deref().unwrap_or("all instances");
            let (page, since) = (name(verdict.context), minute_of(verdict.since));
            format!("{:?} {page} {instance} since {since}", verdict.kind)
        };
        verdicts.sort_by_key(|verdict| about(verdict));
        for verdict in &verdicts {
            check(verdict);
            let about_it = about(verdict);
            if ongoing.contains(&about_it) && minute % 10 != 0 {
                continue;
            }
            let _ = writeln!(lines, "{minute} {about_it} {}", details_of(verdict));
        }
        let now: Vec<String> = verdicts.iter().map(about).collect();
        for ended in ongoing.iter().filter(|about| !now.contains(about)) {
            let _ = writeln!(lines, "{minute} ended: {ended}");
        }
        ongoing = now;
        let mut watched = detector.watched();
        watched.sort_by_key(|(id, watched)| (name(*id), watched.since));
        for (id, watched) in watched {
            let tail = if watched.is_tail { " tail" } else { "" };
            let (page, since, ratio) = (name(id), minute_of(watched.since), digits(watched.ratio));
            let _ = writeln!(lines, "{minute} watches {page} since {since}{tail} {ratio}");
        }
        if minute % 20 == 19 {
            let coverage = detector.coverage();
            let stored = detector.state().parts();
            let (parts, bytes) = (stored.len(), stored.iter().map(|(_, part)| part.len()));
            let bytes: usize = bytes.sum();
            let (contexts, compared, gaps) = (coverage.contexts, coverage.compared, coverage.gaps);
            let _ = write!(
                lines,
                "{minute} sees {contexts} compares {compared} gaps {gaps} "
            );
            let _ = writeln!(lines, "stored {parts} in {bytes} bytes");
        }
    }
    lines
}

#[test]
fn every_verdict_equals_the_expected_text() {
    let all = SEEDS.map(|seed| format!("seed {seed}\n{}", transcript(seed)));
    let all: String = all.collect();
    if std::env::var_os("PULSE_WRITE_VERDICTS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/verdicts.txt");
        std::fs::write(path, &all).expect("verdicts.txt is written");
    }
    let mut lines = all.lines().zip(VERDICTS.lines());
    let line = lines.position(|(now, then)| now != then);
    let line = line.unwrap_or(all.lines().count().min(VERDICTS.lines().count()));
    assert!(
        all == VERDICTS,
        "line {} differs from verdicts.txt:\n{}\ninstead of\n{}\nIf the change is intended, write the file with \
         PULSE_WRITE_VERDICTS=1, and look at all differences",
        line + 1,
        all.lines().nth(line).unwrap_or("the end"),
        VERDICTS.lines().nth(line).unwrap_or("the end"),
    );
}
