//! Seven questions about a bad deploy, asked in Rust, and two of these questions about a bad instance.
//! `tests/browser` asks all seven about incidents of the demo.

use std::time::Duration;

use serde_json::Value;
use tower_pulse::query::{ChangesQuery, Reader, Verdict};
use tower_pulse::{Change, ChangeKind, Suspect};

use crate::changes::figures::agree;
use crate::changes::fleet::{Backend, Fleet};
use crate::changes::traffic::{Request, Traffic};
use crate::rig::seed::fixed_seed;

const PAGE: &str = "GET /products/{id}";

/// A fleet of four instances after 45 minutes of usual traffic and a deploy to the first `deployed` instances. In the
/// next eleven minutes, the requests of `is_slow` took four times as long. Also returns the time of the deploy.
async fn slowed_fleet(
    backend: Backend,
    deployed: usize,
    is_slow: impl Fn(&Request) -> bool,
) -> (Fleet, i64) {
    let mut fleet = Fleet::with_versions(backend, &[Some("1.0"); 4]);
    let mut traffic = Traffic::new(fixed_seed(), 4);
    fleet.usual(&mut traffic, 45).await;
    fleet.deploy_to_first(deployed, "1.1").await;
    let began = fleet.now;
    for _ in 0..11 {
        let mut requests = traffic.minute();
        for request in requests.iter_mut().filter(|request| is_slow(request)) {
            request.duration *= 4;
        }
        fleet.pass_and_judge(&requests).await;
    }
    fleet.instances[3].time.advance(Duration::from_secs(2));
    (fleet, began)
}

async fn json(query: &Reader, question: String) -> Value {
    let answer = query.json(&question.replace(' ', "%20")).await;
    serde_json::from_str(&answer.unwrap()).unwrap()
}

/// The instance that a change is about, or its suspected instances.
fn instances_of(change: &Change) -> String {
    let suspected = change.suspects.iter().find_map(|suspect| match suspect {
        Suspect::Instance { instances, .. } => Some(instances.join(",")),
        _ => None,
    });
    let own = change.instance.as_ref().map(ToString::to_string);
    own.or(suspected).unwrap_or_default()
}

#[tokio::test]
async fn a_bad_deploy_is_explained() {
    let is_slow = |request: &Request| request.instance < 2 && *request.context == *PAGE;
    let (fleet, began) = slowed_fleet(Backend::redis().await, 2, is_slow).await;
    let query = fleet.instances[3].pulse.query();

    // Which page has changed, and since when?
    let changes = query.ask(&ChangesQuery::default()).await.unwrap();
    let ongoing = changes.changes.iter().filter(|row| row.is_ongoing);
    let ongoing: Vec<_> = ongoing.collect();
    let [row] = ongoing[..] else {
        panic!("{ongoing:#?}");
    };
    let change = &row.change;
    let about = (change.kind, &*change.context);
    assert_eq!(about, (ChangeKind::Slower, PAGE), "{row:#?}");
    let off = change.since.abs_diff(began);
    assert!(off <= 120, "{off} s off: {row:#?}");

    // Which page do I fix first?
    for window in ["15m", "1h", "6h"] {
        let answer = json(query, format!("fix_first?window={window}")).await;
        let first = &answer["rows"][0];
        let named = [&first["context"], &first["reason"]];
        assert_eq!(named, [PAGE, "slower"], "{window}: {first:#}");
        assert!(first["saved_per_minute"].is_number(), "{window}: {first:#}");
    }

    // Is it my code or a timer?
    let is_part = |one: &Suspect| matches!(one, Suspect::Timer { .. } | Suspect::Computing { .. });
    assert!(!change.suspects.iter().any(is_part), "{change:#?}");
    assert_eq!(instances_of(change), "web-1,web-2", "{change:#?}");
    let says = change.explanation();
    let cause = "times web-3 and web-4 in the same minutes; version 1.1, as the change began, ";
    assert!(says.contains(cause), "{says}");

    // Which requests?
    let worst = async |window: String| {
        let mut answer = json(query, format!("path?{window}&context={PAGE}")).await;
        answer["window"]["worst_requests"].take()
    };
    let answer = worst("window=6h".to_owned()).await;
    assert_eq!(answer["failing"], false, "{answer:#}");
    let requests = answer["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 5, "{answer:#}");
    // Requests that ended after the start of the change come first.
    let is_before = |request: &Value| request["ended"].as_f64().unwrap() < change.since as f64;
    let is_sorted = requests.is_sorted_by_key(is_before);
    assert!(is_sorted && !is_before(&requests[0]), "{answer:#}");
    let (from, to) = (began - 7_200, began - 3_600);
    let before = worst(format!("from={from}&to={to}")).await;
    let nothing = "nothing was recorded then";
    assert_eq!(before["in_window"], false, "{nothing}: {before:#}");

    // Which instance?
    let (since, to) = (change.since, change.since + 3_600);
    let question = format!("instances?from={since}&to={to}&context={PAGE}");
    let answer = json(query, question).await;
    let rows = answer["instances"].as_array().unwrap().iter();
    let odd = rows.filter(|row| row["stands_out"] == true);
    let versions: Vec<_> = odd.map(|row| &row["version"]).collect();
    assert_eq!(versions, ["1.1"; 2], "{answer:#}");

    // Did the deploy do it?
    let deploy = &row.deploy;
    assert_eq!(deploy.verdict, Verdict::Suspected, "{deploy:#?}");
    let mark = deploy.mark.as_ref().expect("the version has a mark");
    assert_eq!(mark.version.as_deref(), Some("1.1"), "{deploy:#?}");
    let ratio = deploy.side_by_side.expect("both versions ran");
    assert!((2.5..=5.5).contains(&ratio), "{deploy:#?}");
    agree(query, fleet.now).await;
}

/// All pages of web-3 are slow, so a change may name any page, or `<all>`.
#[tokio::test]
async fn a_bad_instance_is_explained() {
    let is_slow = |request: &Request| request.instance == 2;
    let (fleet, _) = slowed_fleet(Backend::memory(), 0, is_slow).await;
    let query = fleet.instances[3].pulse.query();
    let changes = query.ask(&ChangesQuery::default()).await.unwrap();
    let ongoing = changes.changes.iter().filter(|row| row.is_ongoing);
    let ongoing: Vec<_> = ongoing.collect();
    assert!(!ongoing.is_empty(), "{:#?}", changes.changes);
    for row in ongoing {
        assert!(instances_of(&row.change).contains("web-3"), "{row:#?}");
        assert_eq!(row.deploy.verdict, Verdict::NotTheDeploy, "{row:#?}");
    }
    agree(query, fleet.now).await;
}
