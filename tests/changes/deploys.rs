//! Versions of the application: the marks that they make, and each page before and after, and side by side.

use crate::rig::reads::StoreOf;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tower_pulse::Suspect;
use tower_pulse_core::store::marks;

use crate::fleet::{Backend, Fleet, MINUTE, named};
use crate::rig::seed::fixed_seed;
use crate::traffic::{Request, SEARCH, Traffic, slow_down};

const INSTANCES: usize = 4;
/// The relative error of a mean that is computed from buckets.
const BUCKET_ERROR: f64 = 0.023;

/// The versions of the marks, oldest first.
async fn marked(fleet: &Fleet) -> Vec<String> {
    let marks = fleet.instances[0].json("api/marks").await;
    let marks = marks["marks"].as_array().unwrap().iter().rev();
    marks
        .map(|mark| mark["version"].as_str().unwrap_or("-").to_owned())
        .collect()
}

async fn a_version_is_marked_once_when_it_is_new(backend: Backend) {
    let mut fleet = Fleet::with_versions(backend, &[Some("1.0"); INSTANCES]);
    fleet.pass(&[]).await;
    assert_eq!(marked(&fleet).await, ["1.0"]);
    // One instance after the other gets the new version; some are restarted meanwhile.
    for number in 0..INSTANCES {
        fleet.deploy(number, "1.1").await;
        fleet.pass(&[]).await;
        assert_eq!(marked(&fleet).await, ["1.0", "1.1"]);
        fleet.restart(number).await;
        fleet.pass(&[]).await;
        fleet.restart(INSTANCES - 1).await;
        fleet.pass(&[]).await;
        assert_eq!(marked(&fleet).await, ["1.0", "1.1"], "instance {number}");
    }
    for _ in 0..3 {
        fleet.pass(&[]).await;
    }
    // The new version is taken back.
    for number in 0..INSTANCES {
        fleet.deploy(number, "1.0").await;
        fleet.pass(&[]).await;
        assert_eq!(marked(&fleet).await, ["1.0", "1.1", "1.0"]);
    }
    // A restart of all instances.
    fleet.now += 10 * MINUTE;
    for number in 0..INSTANCES {
        fleet.restart(number).await;
    }
    fleet.pass(&[]).await;
    assert_eq!(marked(&fleet).await, ["1.0", "1.1", "1.0"]);
    let marks = marks::list(&*fleet.instances[3].pulse.backend()).await;
    let marks = marks.unwrap();
    assert_eq!(&*marks[1].text, "version 1.1");
}

/// The mark of a version that was removed does not come back, neither with a heartbeat nor with a restart, until another
/// version was marked.
async fn a_mark_of_a_version_that_was_removed_does_not_come_back(backend: Backend) {
    let mut fleet = Fleet::with_versions(backend, &[Some("1.0"); INSTANCES]);
    fleet.pass(&[]).await;
    fleet.deploy(0, "1.1").await;
    fleet.pass(&[]).await;
    let marks = fleet.instances[2].json("api/marks").await;
    let id = marks["marks"][0]["id"].as_str().unwrap().to_owned();
    let removed = fleet.instances[3].pulse.remove_mark(&id).await.unwrap();
    assert_eq!(removed.version.as_deref(), Some("1.1"));
    fleet.set_clocks(fleet.now + 5);
    assert_eq!(marked(&fleet).await, ["1.0"]);
    // Others get the version, and it is restarted.
    for number in [1, 0, 2, 3] {
        fleet.deploy(number, "1.1").await;
        fleet.pass(&[]).await;
        assert_eq!(marked(&fleet).await, ["1.0"]);
    }
    fleet.now += 10 * MINUTE;
    for number in 0..INSTANCES {
        fleet.restart(number).await;
    }
    for _ in 0..2 {
        fleet.pass(&[]).await;
        assert_eq!(marked(&fleet).await, ["1.0"]);
    }
    for version in ["1.2", "1.1"] {
        fleet.deploy(0, version).await;
        for number in 1..INSTANCES {
            fleet.deploy(number, version).await;
        }
        fleet.pass(&[]).await;
    }
    assert_eq!(marked(&fleet).await, ["1.0", "1.2", "1.1"]);
}

/// Instances of a new version whose clocks differ, one of which sends its mark later.
async fn instances_that_start_about_together_make_one_mark(backend: Backend) {
    let fleet = Fleet::with_versions(backend, &[Some("2.0"); 3]);
    let alive = async |number: usize| -> Vec<Value> {
        let all = fleet.instances[number]
            .json("api/instances?window=5m")
            .await;
        let rows = all["instances"].as_array().unwrap().clone();
        rows.iter().map(|row| row["version"].clone()).collect()
    };
    for (number, ahead) in [(0, 3), (1, 0), (2, 7)] {
        let instance = &fleet.instances[number];
        instance.time.set_wall(fleet.now + ahead);
        instance.pulse.simulation().heartbeat().await.unwrap();
        instance.pulse.simulation().heartbeat().await.unwrap();
    }
    // Nobody tells the version before its mark can be read.
    assert_eq!(alive(0).await, [Value::Null, Value::Null, Value::Null]);
    for number in [0, 2, 1] {
        fleet.instances[number].pulse.flush().await.unwrap();
    }
    fleet.set_clocks(fleet.now + 10);
    fleet.heartbeat().await;
    assert_eq!(marked(&fleet).await, ["2.0"]);
    let marks = marks::list(&*fleet.instances[0].pulse.backend()).await;
    assert_eq!(marks.unwrap()[0].at, fleet.now + 3, "the first that came");
    assert_eq!(alive(1).await, ["2.0", "2.0", "2.0"]);
}

/// Passes minutes with 1.0, and gives 1.1 to the first half of the instances.
async fn deploy_to_half(backend: Backend, traffic: &mut Traffic) -> Fleet {
    let mut fleet = Fleet::with_versions(backend, &[Some("1.0"); INSTANCES]);
    for _ in 0..45 {
        let ongoing = fleet.pass_and_judge(&traffic.minute()).await;
        assert_eq!(named(&ongoing), [], "{ongoing:#?}");
    }
    for number in 0..INSTANCES / 2 {
        fleet.deploy(number, "1.1").await;
    }
    fleet.set_clocks(fleet.now);
    fleet.tell_versions().await;
    // Each instance learns of the others.
    fleet.heartbeat().await;
    fleet
}

/// The side-by-side ratios of the suspects that are deploys.
fn deploys(suspects: &[Suspect]) -> Vec<(&str, Option<f64>)> {
    let deploys = suspects.iter().filter_map(|suspect| match suspect {
        Suspect::Deploy {
            version,
            side_by_side,
            ..
        } => Some((version.as_deref().unwrap_or("-"), *side_by_side)),
        _ => None,
    });
    deploys.collect()
}

async fn a_bad_deploy_is_the_suspect(backend: Backend) {
    let mut traffic = Traffic::new(fixed_seed(), INSTANCES);
    let mut fleet = deploy_to_half(backend, &mut traffic).await;
    let deployed = fleet.now;
    for _ in 0..10 {
        let mut requests = traffic.minute();
        for request in &mut requests {
            if request.instance < INSTANCES / 2 {
                slow_down(std::slice::from_mut(request), SEARCH, 4.0);
            }
        }
        fleet.pass_and_judge(&requests).await;
    }
    let ongoing = fleet.ongoing().await;
    assert_eq!(named(&ongoing), [("slower", SEARCH)], "{ongoing:#?}");
    let change = &ongoing[0];
    let [("1.1", Some(ratio))] = deploys(&change.suspects)[..] else {
        panic!("the deploy is a suspect: {change:#?}");
    };
    assert!((3.0..=5.3).contains(&ratio), "{ratio}");
    assert!(
        matches!(change.suspects[0], Suspect::Deploy { .. }),
        "{change:#?}"
    );
    let Suspect::Deploy { seconds_before, .. } = &change.suspects[0] else {
        panic!("it is a deploy");
    };
    assert_eq!(*seconds_before, change.since - deployed);
}

/// Both versions are slower, so the new one has not done it. A mark without a version may have.
async fn an_innocent_deploy_is_no_suspect(backend: Backend) {
    let mut traffic = Traffic::new(fixed_seed(), INSTANCES);
    let mut fleet = deploy_to_half(backend, &mut traffic).await;
    fleet.instances[0].pulse.mark("new index").await.unwrap();
    for _ in 0..10 {
        let mut requests = traffic.minute();
        slow_down(&mut requests, SEARCH, 3.0);
        fleet.pass_and_judge(&requests).await;
    }
    // Marks of one second are in no order.
    let mut marked = marked(&fleet).await;
    marked.sort();
    assert_eq!(marked, ["-", "1.0", "1.1"]);
    let ongoing = fleet.ongoing().await;
    assert_eq!(named(&ongoing), [("slower", SEARCH)], "{ongoing:#?}");
    let suspects = deploys(&ongoing[0].suspects);
    assert_eq!(suspects, [("-", None)], "{ongoing:#?}");
}

/// Everything that was recorded, in a plain list.
#[derive(Default)]
struct Model {
    /// The start of the minute, the version, the request.
    requests: Vec<(i64, &'static str, Request)>,
}

/// Requests, errors, seconds of all, and of successes the number and seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: u64,
    errors: u64,
    seconds: f64,
    successes: u64,
    success_seconds: f64,
}

impl Sums {
    fn add(&mut self, request: &Request) {
        let seconds = request.duration.as_secs_f64();
        self.count += 1;
        self.seconds += seconds;
        if request.status >= 500 {
            self.errors += 1;
        } else {
            self.successes += 1;
            self.success_seconds += seconds;
        }
    }
}

impl Model {
    fn between(&self, from: i64, to: i64) -> BTreeMap<Arc<str>, Sums> {
        let mut sums: BTreeMap<Arc<str>, Sums> = BTreeMap::new();
        let requests = self.requests.iter();
        for (_, _, request) in requests.filter(|(minute, ..)| (from..to).contains(minute)) {
            sums.entry(request.context.clone())
                .or_default()
                .add(request);
        }
        sums
    }

    /// Minutes of both versions, and the sums of each within these minutes.
    fn side_by_side(&self, context: &str, new: &str, from: i64, to: i64) -> (u64, Sums, Sums) {
        let (mut minutes, mut sides) = (0, [Sums::default(); 2]);
        for minute in (from..to).step_by(60) {
            let mut both = [Sums::default(); 2];
            let requests = self.requests.iter().filter(|(at, ..)| *at == minute);
            for (_, version, request) in requests.filter(|(.., r)| *r.context == *context) {
                both[usize::from(*version == new)].add(request);
            }
            if both.iter().all(|sums| sums.count > 0) {
                minutes += 1;
                let of_minute = self.requests.iter().filter(|(at, ..)| *at == minute);
                for (_, version, request) in of_minute.filter(|(.., r)| *r.context == *context) {
                    sides[usize::from(*version == new)].add(request);
                }
            }
        }
        (minutes, sides[1], sides[0])
    }
}

fn assert_near(actual: &Value, expected: f64, error: f64, what: &str) {
    let actual = actual
        .as_f64()
        .unwrap_or_else(|| panic!("{what}: {actual}"));
    assert!(
        (actual - expected).abs() <= error * expected.abs(),
        "{what}: {actual} instead of {expected}"
    );
}

/// Compares a side of an answer with the model.
fn assert_side(side: &Value, expected: Option<&Sums>, what: &str) {
    let Some(expected) = expected else {
        assert!(side.is_null(), "{what}: {side}");
        return;
    };
    assert_eq!(side["count"], expected.count, "{what}");
    assert_eq!(side["errors"], expected.errors, "{what}");
    assert_near(
        &side["mean"],
        expected.seconds / expected.count as f64,
        1e-6,
        what,
    );
    assert_near(&side["total"], expected.seconds, 1e-6, what);
}

fn floor(second: i64, width: i64) -> i64 {
    second.div_euclid(width) * width
}

/// Compares an answer of `api/deploy` about a mark with the model: `width` is the length of the slices that are still
/// retained.
async fn check(fleet: &Fleet, model: &Model, mark: &str, (at, width): (i64, i64), what: &str) {
    let instance = &fleet.instances[1];
    let answer = instance
        .json(&format!("api/deploy?mark={mark}&limit=100"))
        .await;
    assert_eq!(answer["mark"]["at"], at, "{what}");
    let (start, length) = (floor(at, width), width.max(3_600));
    let after = start + width;
    let end = floor(fleet.now, width).min(after + length);
    assert_eq!(answer["before"]["from"], start - length, "{what}");
    assert_eq!(answer["before"]["to"], start, "{what}");
    let has_after = end > after;
    if has_after {
        assert_eq!(answer["after"]["from"], after, "{what}");
        assert_eq!(answer["after"]["to"], end, "{what}");
    } else {
        assert!(answer["after"].is_null(), "{what}: {}", answer["after"]);
    }
    let before = model.between(start - length, start);
    let since = model.between(after, end.max(after));
    let mut contexts: Vec<&Arc<str>> = before.keys().chain(since.keys()).collect();
    contexts.sort();
    contexts.dedup();
    assert_eq!(answer["total"], contexts.len(), "{what}: {answer}");
    let rows = answer["contexts"].as_array().unwrap();
    for context in contexts {
        let row = rows.iter().find(|row| row["context"] == **context).unwrap();
        let what = format!("{what}, {context}");
        assert_side(&row["before"], before.get(context), &what);
        assert_side(
            &row["after"],
            since.get(context).filter(|_| has_after),
            &what,
        );
        let Some(version) = answer["mark"]["version"].as_str() else {
            assert!(row["side_by_side"].is_null(), "{what}");
            continue;
        };
        // The ten newest minutes of the hour since the mark.
        let to = floor(fleet.now, 60).min(floor(at, 60) + 3_600);
        let from = floor(at, 60).max(to - 600);
        let (minutes, new, old) = model.side_by_side(context, version, from, to);
        let side_by_side = &row["side_by_side"];
        let is_retained = fleet.now - to < 7_000;
        if minutes == 0 || !is_retained {
            assert!(side_by_side.is_null(), "{what}: {side_by_side}");
            continue;
        }
        assert_eq!(side_by_side["minutes"], minutes, "{what}");
        let mut means = Vec::new();
        for (side, expected) in [("new", new), ("old", old)] {
            let what = format!("{what}, {side}");
            let side = &side_by_side[side];
            assert_eq!(side["count"], expected.count, "{what}");
            let share = expected.errors as f64 / expected.count as f64;
            assert_near(&side["error_share"], share, 1e-9, &what);
            let mean = expected.success_seconds / expected.successes as f64;
            assert_near(&side["mean"], mean, BUCKET_ERROR, &what);
            means.push(mean);
        }
        if new.successes >= 10 && old.successes >= 10 {
            let ratio = means[0] / means[1];
            assert_near(&side_by_side["ratio"], ratio, 2.0 * BUCKET_ERROR, &what);
        } else {
            assert!(side_by_side["ratio"].is_null(), "{what}");
        }
    }
    // What costs most comes first.
    let extra: Vec<f64> = rows
        .iter()
        .filter_map(|row| row["extra_seconds_per_minute"].as_f64())
        .collect();
    assert!(extra.is_sorted_by(|a, b| a >= b), "{what}: {extra:?}");
}

async fn a_deploy_is_compared_as_a_plain_model_does(backend: Backend) {
    let mut traffic = Traffic::new(fixed_seed(), INSTANCES);
    let mut model = Model::default();
    let mut fleet = Fleet::with_versions(backend, &[Some("1.0"); INSTANCES]);
    let pass = async |fleet: &mut Fleet, model: &mut Model, traffic: &mut Traffic| {
        let mut requests = traffic.minute();
        for request in &mut requests {
            if fleet.versions[request.instance] == Some("1.1") {
                slow_down(std::slice::from_mut(request), SEARCH, 2.0);
                slow_down(std::slice::from_mut(request), "GET /cart", 0.5);
            }
            let version = fleet.versions[request.instance].unwrap();
            model.requests.push((fleet.now, version, request.clone()));
        }
        let answers = fleet.now;
        fleet
            .pass_with(&requests, async |fleet| {
                // Most of the minutes of a test have nothing to say.
                if answers % 600 == 0 {
                    let (status, _) = fleet.instances[0].get("api/deploy?mark=none").await;
                    assert_eq!(status, 404);
                }
            })
            .await;
    };
    // An hour of the past begins in the middle of a half hour.
    fleet.now += 13 * MINUTE;
    for _ in 0..65 {
        pass(&mut fleet, &mut model, &mut traffic).await;
    }
    for number in 0..2 {
        fleet.deploy(number, "1.1").await;
    }
    fleet.set_clocks(fleet.now);
    fleet.tell_versions().await;
    fleet.heartbeat().await;
    let deployed = fleet.now;
    let version = format!("{deployed}-1.1");
    check(&fleet, &model, &version, (deployed, 60), "at once").await;
    pass(&mut fleet, &mut model, &mut traffic).await;
    check(&fleet, &model, &version, (deployed, 60), "after a minute").await;
    pass(&mut fleet, &mut model, &mut traffic).await;
    // In the middle of a minute.
    fleet.set_clocks(fleet.now + 31);
    let mark = fleet.instances[2].pulse.mark("new index").await.unwrap();
    let marked = fleet.now + 31;
    let id = mark.id.to_string();
    check(
        &fleet,
        &model,
        &id,
        (marked, 60),
        "in the minute of the mark",
    )
    .await;
    for minute in 0..14 {
        pass(&mut fleet, &mut model, &mut traffic).await;
        if minute % 6 == 1 {
            check(&fleet, &model, &id, (marked, 60), "a mark").await;
            check(&fleet, &model, &version, (deployed, 60), "side by side").await;
        }
    }
    // Without a mark, the newest deploy is meant, though another mark is newer.
    let newest = fleet.instances[0].json("api/deploy").await;
    assert_eq!(newest["mark"]["id"], version);
    let (status, body) = fleet.instances[0].get("api/deploy?mark=nobody").await;
    assert_eq!(status, 404, "{body}");
    let (status, _) = fleet.instances[0].get("api/deploy?mark=").await;
    assert_eq!(status, 400);

    for (passed, width) in [(3 * 3_600, 1_800), (3 * 86_400, 21_600)] {
        let what = format!("{passed} s ago");
        fleet.now = deployed + passed;
        for _ in 0..2 {
            pass(&mut fleet, &mut model, &mut traffic).await;
        }
        check(&fleet, &model, &version, (deployed, width), &what).await;
        check(&fleet, &model, &id, (marked, width), &what).await;
    }
}

in_both!(
    a_version_is_marked_once_when_it_is_new,
    a_mark_of_a_version_that_was_removed_does_not_come_back,
    instances_that_start_about_together_make_one_mark,
    a_bad_deploy_is_the_suspect,
    an_innocent_deploy_is_no_suspect,
    a_deploy_is_compared_as_a_plain_model_does
);
