//! Changes in `api/changes`, `api/path` and `metrics`.

use std::time::Duration;

use crate::rig::reads::StoreOf;
use fastrand::Rng;
use serde_json::{Value, json};
use tower_pulse::{Change, ChangeKind};
use tower_pulse_core::store::conditional_write::Written;

use crate::changes::fleet::{Backend, Fleet, MINUTE};
use crate::changes::traffic::{SEARCH, Traffic};
use crate::rig::instances::TestFolder;
use crate::rig::json::is_same;
use crate::rig::seed::fixed_seed;

const KINDS: [&str; 8] = [
    "slower",
    "faster",
    "failing",
    "surging",
    "silent",
    "instance",
    "refusing",
    "new_error",
];

/// A stored change. `extra` is in seconds per minute.
pub fn change(id: &str, kind: &str, context: &str, (extra, ended): (f64, Option<i64>)) -> Change {
    let instance = (kind == "instance").then_some("web-1");
    let error = (kind == "new_error").then_some("db_timeout");
    let change = json!({
        "id": id, "kind": kind, "context": context, "instance": instance, "error": error,
        "since": 1_700_000_000, "detected": 1_700_000_240, "ended": ended,
        "then": 0.1, "now": 0.2, "ratio": 2.0, "is_tail": false, "confidence": 0.999_99, "requests": 400,
        "minutes": 0, "seconds_per_minute": 0.0,
        "extra_seconds_per_minute": extra, "from_traffic": 0.25 * extra, "from_code": 0.75 * extra,
        "suspects": [], "yesterday": null, "week_ago": null,
    });
    serde_json::from_value(change).unwrap()
}

/// Random changes of all kinds, in the order in which the API lists them.
fn draw(rng: &mut Rng, count: usize, now: i64) -> Vec<Change> {
    let changes: Vec<Change> = (0..count)
        .map(|n| {
            let extra = (rng.f64() - 0.3) * 100.0;
            let ended = rng.bool().then(|| now - MINUTE * rng.i64(1..500));
            let context = format!("GET /{}", rng.usize(..7));
            change(
                &format!("{n:04}"),
                KINDS[rng.usize(..KINDS.len())],
                &context,
                (extra, ended),
            )
        })
        .collect();
    let (mut ongoing, mut ended): (Vec<Change>, Vec<Change>) = changes
        .into_iter()
        .partition(|change| change.ended.is_none());
    let cost = |a: &Change, b: &Change| {
        let is_minor = |change: &Change| matches!(change.kind.as_str(), "refusing" | "new_error");
        let extra = |change: &Change| change.extra_seconds_per_minute;
        (is_minor(a).cmp(&is_minor(b))).then_with(|| extra(b).total_cmp(&extra(a)))
    };
    ongoing.sort_by(cost);
    ended.sort_by(|a, b| (b.ended.cmp(&a.ended)).then_with(|| cost(a, b)));
    ongoing.extend(ended);
    ongoing
}

pub async fn write(fleet: &Fleet, changes: Vec<Change>) {
    let instance = &fleet.instances[0];
    let store = instance.pulse.backend().clone();
    let judge = TestFolder::new(store, instance.clock.clone(), "judge", 1);
    let write = judge.judgement(fleet.now, &changes, &[]).await.unwrap();
    assert_eq!(judge.write_by_hand(&write).await.unwrap(), Written::Done);
    judge.release().await.unwrap();
}

fn ids(answer: &Value) -> Vec<String> {
    let changes = answer.as_array().unwrap().iter();
    changes
        .map(|change| change["id"].as_str().unwrap().to_owned())
        .collect()
}

fn expected(changes: &[Change], is_listed: impl Fn(&Change) -> bool) -> Vec<String> {
    let listed = changes.iter().filter(|change| is_listed(change));
    listed.map(|change| change.id.to_string()).collect()
}

#[tokio::test]
async fn changes_are_filtered_ordered_and_divided_into_pages() {
    let mut fleet = Fleet::new(Backend::memory(), 2);
    let mut traffic = Traffic::new(fixed_seed(), 2);
    fleet.pass(&traffic.minute()).await;
    let instance = &fleet.instances[1];
    let empty = instance.json("api/changes").await;
    assert_eq!(empty["judged_until"], Value::Null);
    assert_eq!(
        (&empty["total"], &empty["changes"]),
        (&json!(0), &json!([]))
    );

    let changes = draw(&mut Rng::with_seed(fixed_seed()), 300, fleet.now);
    write(&fleet, changes.clone()).await;
    fleet.set_clocks(fleet.now + 3);
    let get = async |parameters: &str| instance.json(&format!("api/changes{parameters}")).await;
    let all = get("?limit=100").await;
    assert_eq!(all["judged_until"], json!(fleet.now));
    let mut listed = Vec::new();
    for page in 0..8 {
        let answer = get(&format!("?limit=40&offset={}", 40 * page)).await;
        assert_eq!(answer["total"], 300);
        let page = ids(&answer["changes"]);
        assert!(page.len() <= 40);
        listed.extend(page);
    }
    assert_eq!(listed, expected(&changes, |_| true));
    assert_eq!(get("?offset=300").await["changes"], json!([]));
    assert_eq!(get("?limit=0").await["changes"], json!([]));
    let metrics = instance.get("metrics").await.1;
    for kind in KINDS {
        let answer = get(&format!("?kind={kind}&limit=100")).await;
        let has_kind = |change: &Change| change.kind.as_str() == kind;
        let of_kind = expected(&changes, has_kind);
        assert_eq!(answer["total"], of_kind.len());
        assert_eq!(ids(&answer["changes"]), of_kind, "{kind}");
        let ongoing = |change: &Change| has_kind(change) && change.ended.is_none();
        let ongoing = expected(&changes, ongoing).len();
        assert_eq!(answer["ongoing"], ongoing);
        let gauge = format!("\npulse_changes{{kind=\"{kind}\"}} {ongoing}\n");
        assert!(metrics.contains(&gauge), "{gauge}: {metrics}");
    }
    assert_eq!(ChangeKind::ALL.map(ChangeKind::as_str), KINDS);
    assert_eq!(get("?kind=any&limit=100").await, all);
    for unknown in ["?kind=slow", "?kind=", "?kind=SLOWER"] {
        let uri = format!("api/changes{unknown}");
        assert_eq!(instance.get(&uri).await.0, 400, "{unknown}");
    }

    let (first, change) = (&all["changes"][0], &changes[0]);
    for (field, value) in serde_json::to_value(change).unwrap().as_object().unwrap() {
        assert!(is_same(&first[field], value), "{field}: {first}");
    }
    assert_eq!(
        (&first["is_ongoing"], &first["method"]),
        (&json!(true), &json!("GET"))
    );
    assert_eq!(first["path"], change.context["GET ".len()..]);
    assert_eq!(first["traffic_share"], json!(0.25));
    assert_eq!(first["code_share"], json!(0.75));

    let of_page = self::change("x", "slower", SEARCH, (1.0, None));
    let of_queue = self::change("q", "slower", "<queue>", (1.0, None));
    write(&fleet, vec![of_page, of_queue]).await;
    instance
        .pulse
        .record_duration("queue", Duration::from_millis(20));
    instance.pulse.flush().await.unwrap();
    fleet.set_clocks(fleet.now + 6);
    let path = instance.json("api/path?context=GET%20/search").await;
    assert_eq!(ids(&path["changes"]), ["x"]);
    assert_eq!(path["changes"][0]["is_ongoing"], true);
    let queue = instance.json("api/path?context=queue").await;
    assert_eq!(ids(&queue["changes"]), ["q"]);
    let overview = instance.json("api/overview?window=15m").await;
    let queue = json!({"requests": 1, "total": 0.02, "mean": 0.02, "change": null});
    assert_eq!(overview["queue"], queue);
    let path = instance.json("api/path?context=GET%20/cart").await;
    assert_eq!(path["changes"], json!([]));
}
