//! The figures of a change agree with each other: in the demo's incidents, and on services that are drawn.

use proptest::prelude::*;

use super::*;
use crate::change::Change;
use crate::log::Log;
use tower_pulse_model::slices::Merge;

/// The work of an instance on a page in a minute.
#[derive(Clone, Copy)]
struct Doing {
    requests: f64,
    /// The milliseconds of the two parts of its work.
    work: [f64; 2],
    error_share: f64,
}

const fn doing(requests: f64, work: [f64; 2]) -> Doing {
    Doing {
        requests,
        work,
        error_share: 0.0,
    }
}

/// The pages of the demo's shop, with their requests per minute on all instances.
const SHOP: [Doing; 8] = [
    doing(360.0, [15.0, 0.0]),
    doing(360.0, [18.0, 6.0]),
    doing(210.0, [12.0, 0.0]),
    doing(180.0, [40.0, 8.0]),
    doing(150.0, [10.0, 6.0]),
    doing(90.0, [25.0, 0.0]),
    Doing {
        error_share: 0.04,
        ..doing(90.0, [60.0, 0.0])
    },
    doing(24.0, [450.0, 0.0]),
];
const PRODUCT: usize = 1;
const SEARCH: usize = 3;
const CHECKOUT: usize = 6;
const INSTANCES: usize = 4;

/// An event on a page of an instance.
type Event<'a> = &'a dyn Fn(usize, usize, &mut Doing);

/// A fleet with its detector and its log of changes.
struct Fleet {
    random: fastrand::Rng,
    pages: Vec<Doing>,
    detector: Detector,
    log: Log,
    minutes: i64,
    /// The seconds of service time of each page and instance, minute by minute.
    seconds: Vec<Vec<[f64; INSTANCES]>>,
}

impl Fleet {
    fn new(pages: &[Doing], seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            pages: pages.to_vec(),
            detector: Detector::default(),
            log: Log::default(),
            minutes: 0,
            seconds: Vec::new(),
        }
    }

    fn draw(&mut self, doing: Doing) -> Aggregate {
        let mut sums = Aggregate::default();
        let (mut all, mut failures) = (Vec::new(), Vec::new());
        let count = doing.requests + doing.requests.sqrt() * normal(&mut self.random);
        for _ in 0..count.round().max(0.0) as u64 {
            let millis = doing.work.map(|millis| {
                let tail = if self.random.f64() < 0.02 { 6.0 } else { 1.0 };
                millis * (0.6 + 0.8 * self.random.f64()) * tail
            });
            let nanos = (1e6 * millis.iter().sum::<f64>()) as u64;
            let failed = self.random.f64() < doing.error_share;
            let outcome = match failed {
                true => Outcome::ServerError,
                false => Outcome::Success,
            };
            sums.times.record(nanos);
            sums.outcomes.record(outcome, failed);
            all.push((bucket_of(nanos) as u16, 1));
            if failed {
                failures.push((bucket_of(nanos) as u16, 1));
            }
        }
        sums.histogram = Histogram::new(4, all);
        sums.failures = Histogram::new(4, failures);
        sums
    }

    /// Lets a minute pass, judges it, and returns all changes of the log.
    fn pass(&mut self, event: Event<'_>) -> Vec<Change> {
        let start = START + 60 * self.minutes;
        let pages = self.pages.clone();
        let mut sums: Vec<(RecordId, Vec<Aggregate>)> = Vec::new();
        for (number, usual) in pages.iter().enumerate() {
            let of_page = (0..INSTANCES).map(|instance| {
                let mut doing = *usual;
                doing.requests /= INSTANCES as f64;
                event(number, instance, &mut doing);
                self.draw(doing)
            });
            sums.push((page(number), of_page.collect()));
        }
        let seconds = |sums: &Aggregate| sums.times.sum as f64 * 1e-9;
        let of_pages = sums.iter().map(|(_, of)| {
            let of: Vec<f64> = of.iter().map(seconds).collect();
            std::array::from_fn(|instance| of[instance])
        });
        self.seconds.push(of_pages.collect());
        let merged = sums.iter().map(|(id, of)| {
            let mut all = Aggregate::default();
            of.iter().for_each(|sums| all.merge(sums));
            (*id, all)
        });
        let merged: Vec<_> = merged.filter(|(_, sums)| sums.times.count > 0).collect();
        let instances = (0..INSTANCES).map(|instance| InstanceMinute {
            instance: format!("web-{}", instance + 1).into(),
            contexts: sums.iter().map(|(id, of)| (*id, &of[instance])).collect(),
        });
        let verdicts = self.detector.judge(&Minute {
            start,
            contexts: merged.iter().map(|(id, sums)| (*id, sums)).collect(),
            instances: instances.collect(),
        });
        self.minutes += 1;
        let name = |id: RecordId| {
            let number = (0..pages.len()).find(|number| page(*number) == id);
            number.map_or("<all>".into(), |number| number.to_string().into())
        };
        let named: Vec<_> = verdicts.into_iter().map(|v| (name(v.context), v)).collect();
        let difference = self.log.apply(&named, start + 60);
        let changed = [&difference.began, &difference.ongoing, &difference.ended];
        let changes = changed.into_iter().flatten();
        let changes: Vec<Change> = changes.filter_map(|id| self.log.get(id).cloned()).collect();
        for change in &changes {
            self.check(change);
        }
        changes
    }

    /// Checks that the figures of a change agree.
    fn check(&self, change: &Change) {
        let Change {
            then,
            now,
            ratio,
            seconds_per_minute: taken,
            extra_seconds_per_minute: extra,
            from_traffic,
            from_code,
            ..
        } = *change;
        let figures = [then, now, ratio, taken, extra, from_traffic, from_code];
        let is_finite = figures.iter().all(|figure| figure.is_finite());
        assert!(is_finite && then >= 0.0 && now >= 0.0, "{change:?}");
        if then > 0.0 {
            assert_eq!(ratio, now / then, "{change:?}");
        }
        assert!((0.0..=1.0).contains(&change.confidence), "{change:?}");
        assert!(
            (from_traffic + from_code - extra).abs() <= 1e-9 * extra.abs(),
            "{change:?}"
        );
        match change.kind {
            ChangeKind::Faster => assert!(now <= then && from_code <= 0.0, "{change:?}"),
            ChangeKind::Slower | ChangeKind::Surging => {
                assert!(now >= then && from_code >= 0.0, "{change:?}");
            }
            // An instance that fails may be faster.
            ChangeKind::Instance => assert!(now >= then && from_traffic == 0.0, "{change:?}"),
            ChangeKind::Failing => assert!(now >= then, "{change:?}"),
            ChangeKind::Silent => assert!(now <= then && from_code == 0.0, "{change:?}"),
        }
        let whole = taken * (1.0 + 1e-9);
        assert!(extra <= whole && from_code <= whole, "{change:?}");
        if let Some((minutes, seconds)) = self.taken(change) {
            assert_eq!(i64::from(change.minutes), minutes, "{change:?}");
            assert!(
                (taken - seconds).abs() <= 1e-6 * seconds,
                "{seconds}: {change:?}"
            );
        }
    }

    /// The minutes since a change of a page that is ongoing, and the seconds that the page takes per minute.
    fn taken(&self, change: &Change) -> Option<(i64, f64)> {
        let number: usize = change.context.parse().ok()?;
        let from = (change.since - START) / 60;
        if change.ended.is_some() || self.minutes - from > 30 {
            return None;
        }
        let instance = change.instance.as_deref();
        let instance = instance.and_then(|name| name.strip_prefix("web-")?.parse::<usize>().ok());
        let minutes = &self.seconds[from as usize..];
        let of_minute = minutes.iter().map(|pages| match instance {
            Some(instance) => pages[number][instance - 1],
            None => pages[number].iter().sum(),
        });
        let count = minutes.len() as i64;
        Some((count, of_minute.sum::<f64>() / count as f64))
    }

    /// Lets an hour pass, then half an hour with an event. Returns the ongoing changes at the end of each minute.
    fn befall(&mut self, event: Event<'_>) -> Vec<Vec<Change>> {
        for _ in 0..62 {
            self.pass(&|_, _, _| {});
        }
        (0..30).map(|_| self.pass(event)).collect()
    }
}

/// The changes of a kind on a page at the ends of the minutes.
fn of_kind(minutes: &[Vec<Change>], kind: ChangeKind, number: usize) -> Vec<Change> {
    let context = number.to_string();
    let changes = minutes.iter().flatten();
    let of_kind = changes.filter(|change| change.kind == kind && *change.context == *context);
    let of_kind: Vec<Change> = of_kind.cloned().collect();
    assert!(!of_kind.is_empty(), "{minutes:?}");
    of_kind
}

/// Checks that all additional time comes from slower requests, by the ratio of the change.
fn is_all_code(change: &Change) {
    assert_eq!(change.from_traffic, 0.0, "{change:?}");
    let part = change.from_code / change.seconds_per_minute;
    let by_ratio = 1.0 - 1.0 / change.ratio;
    assert!((part / by_ratio - 1.0).abs() < 0.1, "{change:?}");
}

#[test]
fn a_query_that_takes_three_times_as_long_is_all_code() {
    let minutes = Fleet::new(&SHOP, 1).befall(&|page, _, doing| {
        if page == SEARCH {
            doing.work[0] *= 3.0;
        }
    });
    for change in of_kind(&minutes, ChangeKind::Slower, SEARCH) {
        // The requests take 128 ms instead of 48 ms.
        assert!(
            (change.ratio * 48.0 / 128.0 - 1.0).abs() < 0.1,
            "{change:?}"
        );
        is_all_code(&change);
    }
}

#[test]
fn a_version_on_half_of_the_instances_is_all_code() {
    let minutes = Fleet::new(&SHOP, 2).befall(&|page, instance, doing| {
        if page == PRODUCT && instance < INSTANCES / 2 {
            doing.work[1] += 24.0;
        }
    });
    for change in of_kind(&minutes, ChangeKind::Slower, PRODUCT) {
        assert!((change.ratio / 1.5 - 1.0).abs() < 0.1, "{change:?}");
        is_all_code(&change);
    }
}

#[test]
fn an_instance_that_is_slow_costs_what_the_others_do_not_take() {
    let minutes = Fleet::new(&SHOP, 3).befall(&|_, instance, doing| {
        if instance == INSTANCES / 2 {
            doing.work = doing.work.map(|millis| 2.5 * millis);
        }
    });
    let last = minutes.last().expect("there are minutes");
    let [change] = &last[..] else {
        panic!("{last:?}");
    };
    assert_eq!(change.instance.as_deref(), Some("web-3"));
    assert!((change.ratio / 2.5 - 1.0).abs() < 0.1, "{change:?}");
    is_all_code(change);
}

#[test]
fn errors_that_take_as_long_have_no_share_of_code() {
    let minutes = Fleet::new(&SHOP, 4).befall(&|page, _, doing| {
        if page == CHECKOUT {
            doing.error_share = 0.25;
        }
    });
    for change in of_kind(&minutes, ChangeKind::Failing, CHECKOUT) {
        assert_eq!(change.from_code, 0.0, "{change:?}");
    }
}

#[test]
fn a_surge_at_an_unchanged_mean_has_no_share_of_code() {
    let minutes = Fleet::new(&SHOP, 5).befall(&|page, _, doing| {
        if page == PRODUCT {
            doing.requests *= 6.0;
        }
    });
    for change in of_kind(&minutes, ChangeKind::Surging, PRODUCT) {
        assert_eq!(change.from_code, 0.0, "{change:?}");
        // Five of six requests are additional.
        let traffic = change.from_traffic / (360.0 * 6.0 * 0.0264);
        assert!(
            (traffic * 6.0 / 5.0 - 1.0).abs() < 0.15,
            "{traffic} {change:?}"
        );
    }
}

#[test]
fn a_slower_page_with_more_requests_costs_for_both() {
    let minutes = Fleet::new(&SHOP, 6).befall(&|page, _, doing| {
        if page == PRODUCT {
            doing.work = doing.work.map(|millis| 2.0 * millis);
            doing.requests *= 2.0;
        }
    });
    for change in of_kind(&minutes, ChangeKind::Slower, PRODUCT) {
        // The page has 720 requests of 52.8 ms instead of 360 of 26.4 ms.
        let [taken, traffic, code] = [38.0, 14.3, 14.3];
        let is_near = |figure: f64, expected: f64| (figure / expected - 1.0).abs() < 0.15;
        assert!(is_near(change.seconds_per_minute, taken), "{change:?}");
        assert!(is_near(change.from_traffic, traffic), "{change:?}");
        assert!(is_near(change.from_code, code), "{change:?}");
    }
}

/// The events of a drawn service.
#[derive(Clone, Copy, Debug)]
struct Befallen {
    page: usize,
    /// The factor by which all pages are slower; the factors by which the page is slower and busier, and its share of
    /// errors.
    shared: f64,
    slower: f64,
    more: f64,
    failing: f64,
    /// Whether only one instance is affected.
    alone: bool,
}

fn befallen() -> impl Strategy<Value = Befallen> {
    let slower = prop_oneof![Just(1.0), Just(3.0), Just(0.4), 0.2..6.0];
    let more = prop_oneof![Just(1.0), Just(5.0), Just(0.0), 0.1..8.0];
    let failing = prop_oneof![Just(0.0), Just(0.3), 0.0..1.0];
    let shared = prop_oneof![Just(1.0), 0.7..2.0];
    (0..SHOP.len(), shared, slower, more, failing, any::<bool>()).prop_map(
        |(page, shared, slower, more, failing, alone)| Befallen {
            page,
            shared,
            slower,
            more,
            failing,
            alone,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// [`Fleet::check`] checks the figures in each minute.
    #[test]
    fn the_figures_of_all_changes_agree(seed in any::<u64>(), befallen in befallen()) {
        let mut fleet = Fleet::new(&SHOP, seed);
        fleet.befall(&|page, instance, doing| {
            doing.work = doing.work.map(|millis| befallen.shared * millis);
            if page == befallen.page && (instance == 0 || !befallen.alone) {
                doing.work = doing.work.map(|millis| befallen.slower * millis);
                doing.requests *= befallen.more;
                doing.error_share += befallen.failing;
            }
        });
        for _ in 0..10 {
            fleet.pass(&|_, _, _| {});
        }
    }
}
