//! The marks of versions, and comparisons of pages before and after a deploy, and of two versions side by side.

use serde_json::{Value, json};
use tower_pulse::Suspect;

use crate::changes::fleet::{Backend, Fleet, MINUTE, START, named};
use crate::changes::traffic::{Request, SEARCH, Traffic, requests};
use crate::rig::seed::fixed_seed;

const INSTANCES: usize = 4;

/// The versions of the marks, oldest first.
async fn marked_versions(fleet: &Fleet) -> Vec<String> {
    let marks = fleet.instances[0].json("api/marks").await;
    let marks = marks["marks"].as_array().unwrap().iter().rev();
    marks
        .map(|mark| mark["version"].as_str().unwrap_or("-").to_owned())
        .collect()
}

/// Deploys a version to one instance after another, and restarts some instances meanwhile. Checks after each step that
/// the marked versions are `expected`.
async fn roll_out(fleet: &mut Fleet, version: &'static str, expected: &[&str]) {
    for number in 0..INSTANCES {
        fleet.deploy(number, version).await;
        fleet.pass(&[]).await;
        assert_eq!(marked_versions(fleet).await, expected, "instance {number}");
        fleet.restart(number).await;
        fleet.pass(&[]).await;
        fleet.restart(INSTANCES - 1).await;
        fleet.pass(&[]).await;
        assert_eq!(marked_versions(fleet).await, expected, "instance {number}");
    }
    fleet.now += 10 * MINUTE;
    for number in 0..INSTANCES {
        fleet.restart(number).await;
    }
    fleet.pass(&[]).await;
    assert_eq!(marked_versions(fleet).await, expected);
}

/// After a version's mark is removed, the version gets no new mark until another version has been marked.
#[tokio::test]
async fn a_version_is_marked_once_when_it_is_new() {
    let mut fleet = Fleet::with_versions(Backend::memory(), &[Some("1.0"); INSTANCES]);
    fleet.pass(&[]).await;
    roll_out(&mut fleet, "1.1", &["1.0", "1.1"]).await;
    let marks = fleet.instances[2].json("api/marks").await;
    assert_eq!(marks["marks"][0]["text"], "version 1.1");
    let id = marks["marks"][0]["id"].as_str().unwrap().to_owned();
    let removed = fleet.instances[3].pulse.remove_mark(&id).await.unwrap();
    assert_eq!(removed.version.as_deref(), Some("1.1"));
    fleet.set_clocks(fleet.now + 5);
    roll_out(&mut fleet, "1.1", &["1.0"]).await;
    for version in ["1.2", "1.1"] {
        for number in 0..INSTANCES {
            fleet.deploy(number, version).await;
        }
        fleet.pass(&[]).await;
    }
    // The mark of version 1.0 from the start of the test is still there.
    roll_out(&mut fleet, "1.0", &["1.0", "1.2", "1.1", "1.0"]).await;
}

/// The instances of a new version have different clocks, and send their marks at different times.
#[tokio::test]
async fn instances_that_start_within_seconds_make_one_mark() {
    let fleet = Fleet::with_versions(Backend::redis().await, &[Some("2.0"); 3]);
    let assert_announced = async |number: usize, version: Value| {
        let all = fleet.instances[number].json("api/instances?window=5m");
        let all = all.await["instances"].take();
        let rows = all.as_array().unwrap();
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|row| row["version"] == version), "{all}");
    };
    for (number, ahead) in [(0, 3), (1, 0), (2, 7)] {
        let instance = &fleet.instances[number];
        instance.time.set_wall(fleet.now + ahead);
        instance.pulse.simulation().heartbeat().await.unwrap();
        instance.pulse.simulation().heartbeat().await.unwrap();
    }
    // No instance announces the version before the version's mark can be read.
    assert_announced(0, Value::Null).await;
    for number in [0, 2, 1] {
        fleet.instances[number].pulse.flush().await.unwrap();
    }
    fleet.set_clocks(fleet.now + 10);
    fleet.heartbeat().await;
    let marks = fleet.instances[0].json("api/marks").await;
    assert_eq!(marks["marks"].as_array().unwrap().len(), 1, "{marks}");
    assert_eq!(marks["marks"][0]["at"], fleet.now + 3, "sent first");
    assert_announced(1, json!("2.0")).await;
}

/// Both versions are slower, so the new version is no suspect. The mark `new index`, which has no version, is a
/// suspect.
#[tokio::test]
async fn an_innocent_deploy_is_no_suspect() {
    let mut traffic = Traffic::new(fixed_seed(), INSTANCES);
    let mut fleet = Fleet::with_versions(Backend::memory(), &[Some("1.0"); INSTANCES]);
    fleet.usual(&mut traffic, 45).await;
    fleet.deploy_to_first(INSTANCES / 2, "1.1").await;
    fleet.instances[0].pulse.mark("new index").await.unwrap();
    fleet.slow(&mut traffic, 10).await;
    // Marks of the same second have no fixed order.
    let mut marked = marked_versions(&fleet).await;
    marked.sort();
    assert_eq!(marked, ["-", "1.0", "1.1"]);
    let ongoing = fleet.ongoing().await;
    assert_eq!(named(&ongoing), [("slower", SEARCH)], "{ongoing:#?}");
    let deploys = ongoing[0].suspects.iter().filter_map(|one| match one {
        Suspect::Deploy { version, .. } => Some(version.as_deref()),
        _ => None,
    });
    assert_eq!(deploys.collect::<Vec<_>>(), [None], "{ongoing:#?}");
}

const PAGE: &str = "GET /page";

/// The requests of a minute: each of two instances serves [`PAGE`] twenty times, in 100 ms. The new version needs
/// 200 ms, and fails twice.
fn minute(fleet: &Fleet) -> Vec<Request> {
    let is_new = |instance: usize| fleet.versions[instance] == Some("1.1");
    let only = ["GET /gone", "GET /new"][usize::from(is_new(0))];
    let mut minute = requests(0, only, 1, 100);
    for instance in [0, 1] {
        let millis = if is_new(instance) { 200 } else { 100 };
        let mut of_page = requests(instance, PAGE, 20, millis);
        if is_new(instance) {
            (of_page[0].status, of_page[1].status) = (500, 500);
        }
        minute.extend(of_page);
    }
    minute
}

fn assert_near(figure: &Value, expected: f64, error: f64) {
    let off = (figure.as_f64().unwrap() / expected - 1.0).abs();
    assert!(off <= error, "{figure} instead of {expected}");
}

/// Asks about a mark. Checks that the compared windows begin and end at these seconds since [`START`]. Returns the row
/// of [`PAGE`].
async fn compared(fleet: &Fleet, mark: &str, before: [i64; 2], after: Option<[i64; 2]>) -> Value {
    let uri = format!("api/deploy?mark={mark}&limit=100");
    let answer = fleet.instances[1].json(&uri).await;
    let bounds = |side: &str| [&answer[side]["from"], &answer[side]["to"]].map(Value::as_i64);
    let expected = before.map(|second| Some(START + second));
    assert_eq!(bounds("before"), expected, "{answer}");
    match after {
        Some(after) => assert_eq!(bounds("after"), after.map(|second| Some(START + second))),
        None => assert!(answer["after"].is_null(), "{answer}"),
    }
    let rows = answer["contexts"].as_array().unwrap();
    assert_eq!(answer["total"], rows.len());
    let row = rows.iter().find(|row| row["context"] == PAGE).unwrap();
    // Each of these two pages exists in one version only.
    for (context, missing) in [("GET /gone", "after"), ("GET /new", "before")] {
        let row = rows.iter().find(|row| row["context"] == context);
        let has_no_version = answer["mark"]["version"].is_null();
        assert!(row.is_none_or(|row| has_no_version || row[missing].is_null()));
    }
    row.clone()
}

#[tokio::test]
async fn a_deploy_is_compared_with_the_hour_before() {
    let mut fleet = Fleet::with_versions(Backend::memory(), &[Some("1.0"); 2]);
    // Starts in the middle of a half hour.
    fleet.now += 13 * MINUTE;
    let pass = async |fleet: &mut Fleet, minutes: usize| {
        for _ in 0..minutes {
            let requests = minute(fleet);
            fleet.pass(&requests).await;
        }
    };
    pass(&mut fleet, 65).await;
    fleet.deploy_to_first(1, "1.1").await;
    let at = fleet.now - START;
    let version = format!("{}-1.1", fleet.now);
    let before = [at - 3_600, at];
    pass(&mut fleet, 1).await;
    compared(&fleet, &version, before, None).await;
    // The mark is made in the middle of a minute.
    fleet.set_clocks(fleet.now + 31);
    let mark = fleet.instances[1].pulse.mark("new index").await.unwrap();
    pass(&mut fleet, 1).await;
    compared(&fleet, &mark.id, before.map(|at| at + 60), None).await;
    pass(&mut fleet, 18).await;

    let row = compared(&fleet, &version, before, Some([at + 60, at + 1_200])).await;
    let counts = |side: &str| [&row[side]["count"], &row[side]["errors"]].map(Value::as_u64);
    assert_eq!(counts("before"), [Some(60 * 40), Some(0)]);
    assert_eq!(counts("after"), [Some(19 * 40), Some(19 * 2)]);
    assert_near(&row["before"]["mean"], 0.1, 1e-6);
    assert_near(&row["after"]["mean"], 0.15, 1e-6);
    assert_near(&row["extra_seconds_per_minute"], 40.0 * 0.05, 1e-6);
    // The versions are compared in their ten newest minutes. These means leave out failures: they come from histograms,
    // and are less exact.
    let both = &row["side_by_side"];
    assert_eq!(both["minutes"], 10);
    for (side, mean, errors) in [("new", 0.2, 0.1), ("old", 0.1, 0.0)] {
        assert_eq!(both[side]["count"], 200, "{both}");
        assert_eq!(both[side]["error_share"], errors, "{both}");
        assert_near(&both[side]["mean"], mean, 0.023);
    }
    assert_near(&both["ratio"], 2.0, 0.05);
    let after = Some([at + 120, at + 1_200]);
    let of_mark = compared(&fleet, &mark.id, [at - 3_540, at + 60], after).await;
    assert!(of_mark["side_by_side"].is_null());
    // Without the parameter `mark`, the answer is about the newest deploy, even if another mark is newer.
    let newest = fleet.instances[0].json("api/deploy").await;
    assert_eq!(newest["mark"]["id"], version);
    for (mark, status) in [("none", 404), ("", 400)] {
        let uri = format!("api/deploy?mark={mark}");
        assert_eq!(fleet.instances[0].get(&uri).await.0, status);
    }

    // Later, only slices of half an hour, and then of six hours, are left around the deploy.
    for (passed, before, after, count) in [
        (3 * 3_600, [0, 3_600], [5_400, 9_000], Some(8 * 40)),
        (3 * 86_400, [-18_000, 3_600], [25_200, 46_800], None),
    ] {
        fleet.now = START + at + passed;
        pass(&mut fleet, 2).await;
        let row = compared(&fleet, &version, before, Some(after)).await;
        assert_eq!(row["before"]["count"], 47 * 40);
        assert_eq!(row["after"]["count"].as_u64(), count);
        assert!(row["side_by_side"].is_null(), "{row}");
    }
}
