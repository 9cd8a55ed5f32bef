//! Who has taken a change: it stays so whoever judges, until the change ends.

use std::sync::Arc;

use axum::Router;
use serde_json::{Value, json};
use tower_pulse::admin::{Access, Permission};
use tower_pulse::{AmendError, Change, ChangeKind};

use crate::api::{change, write};
use crate::fleet::{Backend, Fleet, MINUTE, START};
use crate::rig::asking;
use crate::rig::json::is_same;
use crate::rig::server::RedisServer;
use crate::traffic::{SEARCH, Traffic, slow_down};

const SLOW_AT: i64 = START + 45 * MINUTE;
const FAST_AT: i64 = SLOW_AT + 20 * MINUTE;
const END: i64 = FAST_AT + 15 * MINUTE;

/// Who has taken the page that is slow, on each instance.
async fn takers(fleet: &Fleet) -> Vec<Option<(String, i64)>> {
    let mut takers = Vec::new();
    for instance in &fleet.instances {
        let changes = instance.pulse.changes().await.unwrap();
        let slow = changes.into_iter().find(is_slow_search).unwrap();
        takers.push(
            slow.acknowledged
                .map(|taken| (taken.by.to_string(), taken.at)),
        );
    }
    takers
}

fn is_slow_search(change: &Change) -> bool {
    change.kind == ChangeKind::Slower && *change.context == *SEARCH
}

fn by(name: &str, at: i64) -> Vec<Option<(String, i64)>> {
    vec![Some((name.to_owned(), at)); 2]
}

/// The changes without who has taken them.
fn untaken(mut changes: Vec<Change>) -> Value {
    for change in &mut changes {
        change.acknowledged = None;
    }
    serde_json::to_value(changes).unwrap()
}

/// A fleet of which changes are taken, beside one of which none is: the verdicts are the same, whoever judges.
async fn a_taken_change_stays_taken_until_it_ends(backend: Backend) {
    let mut fleet = Fleet::new(backend, 2);
    let mut twin = Fleet::new(Backend::memory(), 2);
    let mut traffic = Traffic::new(5, 2);
    let mut judge = 0;
    let mut id: Option<Arc<str>> = None;
    while fleet.now < END {
        let mut requests = traffic.minute();
        if (SLOW_AT..FAST_AT).contains(&fleet.now) {
            slow_down(&mut requests, SEARCH, 3.0);
        }
        twin.pass_and_judge(&requests).await;
        fleet.pass(&requests).await;
        let judged = fleet.instances[judge].pulse.simulation().judge().await;
        assert_eq!(judged.unwrap(), 1);
        let expected = untaken(twin.changes().await);
        let actual = untaken(fleet.instances[judge].pulse.changes().await.unwrap());
        assert!(is_same(&actual, &expected), "{actual:#}\n{expected:#}");

        let now = fleet.now;
        match (now - SLOW_AT) / MINUTE {
            10 => {
                // By the instance that does not judge.
                let slow = fleet.changes().await.into_iter().find(is_slow_search);
                let slow = slow.expect("the page is slower");
                let other = &fleet.instances[1 - judge].pulse;
                let taken = other.acknowledge_change(&slow.id, " ada ").await.unwrap();
                assert_eq!(taken.acknowledged.as_ref().map(|taken| taken.at), Some(now));
                assert_eq!(taken.context, slow.context);
                id = Some(slow.id);
                assert_eq!(takers(&fleet).await, by("ada", now));
            }
            11 => {
                assert_eq!(takers(&fleet).await, by("ada", now - MINUTE));
                fleet.restart(judge).await;
                judge = 1 - judge;
            }
            12 => {
                assert_eq!(takers(&fleet).await, by("ada", now - 2 * MINUTE));
                let id = id.as_deref().unwrap();
                let given = fleet.instances[judge].pulse.unacknowledge_change(id).await;
                assert_eq!(given.unwrap().acknowledged, None);
                assert_eq!(takers(&fleet).await, [None, None]);
                // Once more changes nothing.
                let given = fleet.instances[0].pulse.unacknowledge_change(id).await;
                assert_eq!(given.unwrap().acknowledged, None);
            }
            13 => {
                let id = id.as_deref().unwrap();
                let [a, b] = [0, 1].map(|number| &fleet.instances[number].pulse);
                assert_eq!(
                    a.acknowledge_change(id, "ada").await.unwrap().id.as_ref(),
                    id
                );
                let taken = b
                    .acknowledge_change(id, "")
                    .await
                    .unwrap()
                    .acknowledged
                    .unwrap();
                assert_eq!(&*taken.by, "someone");
                a.acknowledge_change(id, "bob\u{202e}").await.unwrap();
                assert_eq!(takers(&fleet).await, by("bob\\u{202e}", now));
                // All start again.
                for number in 0..2 {
                    fleet.restart(number).await;
                }
            }
            14..20 => {
                let at = SLOW_AT + 13 * MINUTE + (now - SLOW_AT) % MINUTE;
                assert_eq!(takers(&fleet).await, by("bob\\u{202e}", at));
            }
            _ => {}
        }
    }
    let ended = fleet.changes().await.into_iter().find(is_slow_search);
    assert!(ended.unwrap().ended.is_some());
    assert_eq!(takers(&fleet).await, [None, None]);
    let pulse = &fleet.instances[1].pulse;
    let id = id.as_deref().unwrap();
    for refused in [
        pulse.acknowledge_change(id, "ada").await,
        pulse.unacknowledge_change(id).await,
    ] {
        assert!(
            matches!(&refused, Err(AmendError::Conflict(_))),
            "{refused:?}"
        );
    }
    let unknown = pulse.acknowledge_change("no such change", "ada").await;
    assert!(
        matches!(&unknown, Err(AmendError::NotFound(_))),
        "{unknown:?}"
    );
    pulse.shutdown().await.unwrap();
    let late = pulse.acknowledge_change(id, "ada").await;
    assert!(late.unwrap_err().to_string().contains("shutdown"));
}

/// The changes of a fleet, none of which has ended.
async fn fleet_of(backend: Backend, ids: usize) -> Fleet {
    let fleet = Fleet::new(backend, 2);
    fleet.flush().await.unwrap();
    let changes = (0..ids).map(|n| change(&format!("{n:04}"), "slower", "GET /a", (1.0, None)));
    write(&fleet, changes.collect()).await;
    fleet
}

async fn of_two_who_take_at_once_one_has_it(backend: Backend) {
    let fleet = fleet_of(backend, 2).await;
    let [a, b] = [0, 1].map(|number| &fleet.instances[number].pulse);
    for round in 0..20 {
        let names = [format!("ada {round}"), format!("bob {round}")];
        let (ada, bob, other) = tokio::join!(
            a.acknowledge_change("0000", &names[0]),
            b.acknowledge_change("0000", &names[1]),
            b.acknowledge_change("0001", &names[0]),
        );
        for (taken, name) in [ada, bob].into_iter().zip(&names) {
            assert_eq!(&*taken.unwrap().acknowledged.unwrap().by, name);
        }
        other.unwrap();
        let mut read = Vec::new();
        for pulse in [a, b] {
            let mut changes = pulse.changes().await.unwrap();
            changes.sort_by(|a, b| a.id.cmp(&b.id));
            let takers = changes
                .into_iter()
                .map(|change| change.acknowledged.unwrap().by.to_string());
            read.push(takers.collect::<Vec<_>>());
        }
        assert_eq!(read[0], read[1]);
        assert!(names.contains(&read[0][0]), "{read:?}");
        assert_eq!(read[0][1], names[0]);
    }
}

#[tokio::test]
async fn no_more_than_a_hundred_are_taken_and_those_that_ended_make_room() {
    let fleet = fleet_of(Backend::memory(), 102).await;
    let pulse = &fleet.instances[0].pulse;
    let name = "é".repeat(70);
    for n in 0..100 {
        pulse
            .acknowledge_change(&format!("{n:04}"), &name)
            .await
            .unwrap();
    }
    let full = pulse.acknowledge_change("0100", "ada").await;
    assert!(matches!(&full, Err(AmendError::Conflict(_))), "{full:?}");
    assert!(full.unwrap_err().to_string().contains("100"));
    // Somebody else may see to one of them.
    pulse.acknowledge_change("0007", "ada").await.unwrap();
    write(
        &fleet,
        vec![change("0003", "slower", "GET /a", (1.0, Some(START)))],
    )
    .await;
    pulse.acknowledge_change("0100", "ada").await.unwrap();
    assert!(pulse.acknowledge_change("0101", "ada").await.is_err());
    pulse.unacknowledge_change("0005").await.unwrap();
    pulse.acknowledge_change("0101", "ada").await.unwrap();
    let taken = pulse.changes().await.unwrap();
    let longest = taken.iter().flat_map(|change| &change.acknowledged);
    assert_eq!(longest.map(|taken| taken.by.len()).max(), Some(64));
}

async fn send(
    app: &Router,
    (method, endpoint): (&str, &str),
    headers: &[(&str, &str)],
    body: Value,
) -> (u16, Value) {
    let uri = format!("/pulse/{endpoint}");
    let answer = asking::send(app, method, &uri, headers, &body.to_string()).await;
    (answer.status.as_u16(), answer.json())
}

const JSON: (&str, &str) = ("content-type", "application/json");
const CHANGES: (&str, &str) = ("POST", "api/changes");

async fn a_change_is_taken_over_http(backend: Backend) {
    let fleet = fleet_of(backend, 3).await;
    let ended = change("9999", "slower", "GET /b", (1.0, Some(START)));
    write(&fleet, vec![ended]).await;
    let app = &fleet.instances[1].app;
    let take = async |id: &str, taken: bool| {
        send(app, CHANGES, &[JSON], json!({ "id": id, "taken": taken })).await
    };
    let counts = async |number: usize| {
        let listed = fleet.instances[number].json("api/changes").await;
        (listed["standing"].clone(), listed["problems"].clone())
    };
    assert_eq!(counts(1).await, (json!(3), json!(3)));
    let (status, taken) = take("0001", true).await;
    assert_eq!((status, &taken["id"]), (200, &json!("0001")));
    assert_eq!(taken["taken"], json!({ "by": "someone", "at": fleet.now }));
    // At once on this instance, and on others when they read again.
    assert_eq!(counts(1).await, (json!(3), json!(2)));
    assert_eq!(counts(0).await, (json!(3), json!(2)));
    let of_path = fleet.instances[1].json("api/changes?limit=10").await;
    let rows = of_path["changes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == "0001").unwrap();
    assert_eq!(row["taken"]["by"], "someone");
    assert!(rows.iter().filter(|row| row["taken"].is_null()).count() == 3);

    let (status, given) = take("0001", false).await;
    assert_eq!((status, &given["taken"]), (200, &Value::Null));
    assert_eq!(counts(1).await, (json!(3), json!(3)));
    for (id, expected) in [("9999", 409), ("none", 404), ("", 404)] {
        let (status, answer) = take(id, true).await;
        assert_eq!(status, expected, "{id}");
        assert!(answer["error"].as_str().unwrap().len() > 10, "{answer}");
    }
    for bad in [
        json!({}),
        json!({ "id": "0001" }),
        json!({ "id": 1, "taken": true }),
        json!({ "id": "0001", "taken": "yes" }),
        json!({ "id": "0001", "taken": true, "by": "ada" }),
        json!([]),
    ] {
        assert_eq!(send(app, CHANGES, &[JSON], bad).await.0, 400);
    }
    let body = || json!({ "id": "0001", "taken": true });
    assert_eq!(send(app, CHANGES, &[], body()).await.0, 415);
    let foreign = ("sec-fetch-site", "cross-site");
    assert_eq!(send(app, CHANGES, &[JSON, foreign], body()).await.0, 403);
    let host = ("host", "evil.example");
    assert_eq!(send(app, CHANGES, &[JSON, host], body()).await.0, 403);
    let large = json!({ "id": "x".repeat(17_000), "taken": true });
    assert_eq!(send(app, CHANGES, &[JSON], large).await.0, 413);
    let put = ("PUT", "api/changes");
    assert_eq!(send(app, put, &[JSON], body()).await.0, 405);
    assert_eq!(counts(1).await, (json!(3), json!(3)));
}

/// Who a change is taken by, as the access says it.
#[tokio::test]
async fn the_access_says_who_takes_a_change() {
    let fleet = fleet_of(Backend::memory(), 1).await;
    let pulse = &fleet.instances[0].pulse;
    let user = |parts: &http::request::Parts| {
        let user = parts.headers.get("x-user")?.to_str().ok()?;
        Some(user.to_owned())
    };
    let named = move |parts: &http::request::Parts| match user(parts).as_deref() {
        Some("guest") => Permission::read().named("guest"),
        Some(name) => Permission::write().named(name),
        None => Permission::refuse(),
    };
    let allowed = move |parts: &http::request::Parts| user(parts).is_some();
    let long = "x".repeat(65);
    for (access, headers, expected) in [
        (
            Access::basic("ada", "secret"),
            ("authorization", "Basic YWRhOnNlY3JldA==".to_owned()),
            Ok("ada"),
        ),
        (
            Access::token("secret"),
            ("authorization", "Basic ZXZlOnNlY3JldA==".to_owned()),
            Ok("someone"),
        ),
        (Access::open(), ("x-user", "ada".to_owned()), Ok("someone")),
        (
            Access::custom(named),
            ("x-user", "bob <b>".to_owned()),
            Ok("bob <b>"),
        ),
        (
            Access::custom(named),
            ("x-user", " ".to_owned()),
            Ok("someone"),
        ),
        (
            Access::custom(named),
            ("x-user", long.clone()),
            Ok(&long[..64]),
        ),
        (
            Access::custom(named),
            ("x-user", "guest".to_owned()),
            Err(403),
        ),
        (
            Access::custom(named),
            ("x-other", "ada".to_owned()),
            Err(403),
        ),
        (
            Access::custom(allowed),
            ("x-user", "ada".to_owned()),
            Ok("someone"),
        ),
        (
            Access::custom(allowed),
            ("x-other", "ada".to_owned()),
            Err(403),
        ),
        (
            Access::custom_async(move |parts| std::future::ready(named(parts))),
            ("x-user", "cleo".to_owned()),
            Ok("cleo"),
        ),
        (
            Access::custom_async(move |parts| std::future::ready(named(parts))),
            ("x-user", "guest".to_owned()),
            Err(403),
        ),
    ] {
        let app = Router::new().merge(pulse.mount("/pulse", access.clone()));
        let headers = [JSON, (headers.0, &*headers.1)];
        let take = json!({ "id": "0000", "taken": true });
        let (status, answer) = send(&app, CHANGES, &headers, take).await;
        let taken = match status {
            200 => Ok(answer["taken"]["by"].as_str().unwrap()),
            status => Err(status),
        };
        assert_eq!(taken, expected, "{access:?} {headers:?}");
    }
    // Who may only read reads all, and changes nothing.
    let app = Router::new().merge(pulse.mount("/pulse", Access::custom(named)));
    let guest = [JSON, ("x-user", "guest")];
    for endpoint in ["api/changes", "api/marks", ""] {
        let got = send(&app, ("GET", endpoint), &guest, Value::Null).await;
        assert_eq!(got.0, 200, "{endpoint}");
    }
    let mark = json!({ "text": "x" });
    for request in [("POST", "api/marks"), ("DELETE", "api/marks?id=1")] {
        let (status, answer) = send(&app, request, &guest, mark.clone()).await;
        assert_eq!(status, 403);
        assert!(answer["error"].as_str().unwrap().contains("read"));
    }
    assert_eq!(
        pulse
            .query()
            .ask(&tower_pulse::query::MarksQuery::default())
            .await
            .unwrap()
            .marks,
        []
    );
}

#[tokio::test]
async fn those_who_take_changes_are_as_many_as_those_who_make_marks() {
    let fleet = fleet_of(Backend::memory(), 1).await;
    let app = &fleet.instances[0].app;
    let (mut accepted, mut refused) = (0, 0);
    for number in 0..70 {
        let request = match number % 3 {
            0 => (CHANGES, json!({ "id": "0000", "taken": true })),
            1 => (("POST", "api/marks"), json!({ "text": "x" })),
            _ => (("DELETE", "api/marks?id=none"), Value::Null),
        };
        match send(app, request.0, &[JSON], request.1).await.0 {
            429 => refused += 1,
            _ => accepted += 1,
        }
    }
    assert_eq!((accepted, refused), (60, 10));
}

/// A mark that was removed after it was suspected is no suspect, in code and over HTTP.
#[tokio::test]
async fn a_mark_that_was_removed_is_no_suspect() {
    let fleet = fleet_of(Backend::memory(), 0).await;
    let pulse = &fleet.instances[0].pulse;
    let marks = [
        pulse.mark("tried").await.unwrap(),
        pulse.mark("new index").await.unwrap(),
    ];
    let suspects = marks.each_ref().map(|mark| {
        json!({
            "kind": "deploy", "mark": mark.id, "text": mark.text, "version": null,
            "seconds_before": 60, "side_by_side": null,
        })
    });
    let mut suspected = serde_json::to_value(change("1", "slower", "GET /a", (1.0, None))).unwrap();
    suspected["suspects"] = json!(suspects);
    write(&fleet, vec![serde_json::from_value(suspected).unwrap()]).await;
    let texts = async || {
        let changes = serde_json::to_value(pulse.changes().await.unwrap()).unwrap();
        let listed = fleet.instances[0].json("api/changes").await["changes"].take();
        [changes, listed].map(|of| {
            let suspects = of[0]["suspects"].as_array().unwrap().iter();
            suspects
                .map(|one| one["text"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(
        texts().await,
        [["tried", "new index"], ["tried", "new index"]]
    );
    pulse.remove_mark(&marks[0].id).await.unwrap();
    fleet.set_clocks(fleet.now + 5);
    assert_eq!(texts().await, [["new index"], ["new index"]]);
    let listed = fleet.instances[0].json("api/changes").await;
    assert_eq!(listed["changes"][0]["deploy"]["mark"]["text"], "new index");
}

/// A server that was there and is away: no answer says that all is well.
#[tokio::test]
async fn while_redis_is_away_nothing_is_said_to_be_taken() {
    let server = RedisServer::start().await;
    let fleet = fleet_of(Backend::Redis(server), 1).await;
    let pulse = &fleet.instances[0].pulse;
    fleet.backend.server().kill_9();
    let failed = pulse.acknowledge_change("0000", "ada").await.unwrap_err();
    assert!(matches!(&failed, AmendError::Store(_)), "{failed:?}");
    assert!(
        failed.to_string().contains("may still be taken"),
        "{failed}"
    );
    let app = &fleet.instances[0].app;
    let take = json!({ "id": "0000", "taken": true });
    let (status, answer) = send(app, CHANGES, &[JSON], take).await;
    assert_eq!(status, 503);
    assert!(answer["error"].as_str().unwrap().contains("may still be"));
}

in_both!(
    a_taken_change_stays_taken_until_it_ends,
    of_two_who_take_at_once_one_has_it,
    a_change_is_taken_over_http
);
