//! An acknowledged change stays acknowledged until it ends, on all instances.

use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};
use tower_pulse::admin::{Access, Permission};
use tower_pulse::query::MarksQuery;
use tower_pulse::{AmendError, Pulse};

use crate::changes::api::{change, write};
use crate::changes::fleet::{Backend, Fleet, START};
use crate::changes::traffic::Traffic;
use crate::rig::asking;
use crate::rig::seed::fixed_seed;

/// The person who has acknowledged the first listed change, and the time in Unix seconds, as each instance reports
/// them.
async fn takers(fleet: &Fleet) -> Vec<Option<(String, i64)>> {
    let mut takers = Vec::new();
    for instance in &fleet.instances {
        let changes = instance.pulse.changes().await.unwrap();
        let taken = changes[0].acknowledged.as_ref();
        takers.push(taken.map(|taken| (taken.by.to_string(), taken.at)));
    }
    takers
}

fn by(name: &str, at: i64) -> Vec<Option<(String, i64)>> {
    vec![Some((name.to_owned(), at)); 2]
}

async fn a_taken_change_stays_taken_until_it_ends(backend: Backend) {
    let mut fleet = Fleet::new(backend, 2);
    let mut traffic = Traffic::new(fixed_seed(), 2);
    fleet.usual(&mut traffic, 45).await;
    fleet.slow(&mut traffic, 5).await;
    let id = &*fleet.changes().await.remove(0).id;
    let pulse = |fleet: &Fleet, number: usize| fleet.instances[number].pulse.clone();
    // The instance that does not judge acknowledges the change.
    let at = fleet.now;
    let taken = pulse(&fleet, 1).acknowledge_change(id, " ada ").await;
    assert_eq!(taken.unwrap().acknowledged.unwrap().at, at);
    assert_eq!(takers(&fleet).await, by("ada", at));
    fleet.slow(&mut traffic, 1).await;
    fleet.restart(0).await;
    fleet.slow(&mut traffic, 1).await;
    assert_eq!(takers(&fleet).await, by("ada", at));
    // The second withdrawal changes nothing.
    for number in [0, 1] {
        let given = pulse(&fleet, number).unacknowledge_change(id).await;
        assert_eq!(given.unwrap().acknowledged, None);
        assert_eq!(takers(&fleet).await, [None, None]);
    }
    let at = fleet.now;
    for (number, name, shown) in [
        (0, "ada", "ada"),
        (1, "", "someone"),
        (0, "bob\u{202e}", "bob\\u{202e}"),
    ] {
        let taken = pulse(&fleet, number).acknowledge_change(id, name).await;
        assert_eq!(&*taken.unwrap().acknowledged.unwrap().by, shown);
    }
    // Restarts all instances.
    for number in 0..2 {
        fleet.restart(number).await;
    }
    for _ in 0..4 {
        fleet.slow(&mut traffic, 1).await;
        assert_eq!(takers(&fleet).await, by("bob\\u{202e}", at));
    }
    fleet.usual(&mut traffic, 15).await;
    assert!(fleet.changes().await[0].ended.is_some());
    assert_eq!(takers(&fleet).await, [None, None]);
    let pulse = pulse(&fleet, 1);
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
    let late = pulse.acknowledge_change(id, "ada").await.unwrap_err();
    assert!(late.to_string().contains("shutdown"), "{late}");
}

/// A fleet of two instances with ongoing changes: `0000`, `0001`, ...
async fn fleet_of(backend: Backend, ids: usize) -> Fleet {
    let fleet = Fleet::new(backend, 2);
    fleet.flush().await.unwrap();
    let changes = (0..ids).map(|n| change(&format!("{n:04}"), "slower", "GET /a", (1.0, None)));
    write(&fleet, changes.collect()).await;
    fleet
}

#[tokio::test]
async fn of_two_who_take_at_once_one_has_it() {
    let fleet = fleet_of(Backend::redis().await, 2).await;
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
        let read = async |pulse: &Pulse| {
            let mut changes = pulse.changes().await.unwrap();
            changes.sort_by(|a, b| a.id.cmp(&b.id));
            [0, 1].map(|at| changes[at].acknowledged.clone().unwrap().by.to_string())
        };
        let takers = read(a).await;
        assert_eq!(takers, read(b).await);
        assert!(names.contains(&takers[0]), "{takers:?}");
        assert_eq!(takers[1], names[0]);
    }
}

#[tokio::test]
async fn no_more_than_a_hundred_are_taken_and_those_that_ended_make_room() {
    let fleet = fleet_of(Backend::memory(), 102).await;
    let pulse = &fleet.instances[0].pulse;
    let name = "é".repeat(70);
    for n in 0..100 {
        let taken = pulse.acknowledge_change(&format!("{n:04}"), &name).await;
        taken.unwrap();
    }
    let full = pulse.acknowledge_change("0100", "ada").await;
    assert!(matches!(&full, Err(AmendError::Conflict(_))), "{full:?}");
    assert!(full.unwrap_err().to_string().contains("100"));
    // Another person may still acknowledge one of the hundred changes.
    pulse.acknowledge_change("0007", "ada").await.unwrap();
    let ended = change("0003", "slower", "GET /a", (1.0, Some(START)));
    write(&fleet, vec![ended]).await;
    pulse.acknowledge_change("0100", "ada").await.unwrap();
    assert!(pulse.acknowledge_change("0101", "ada").await.is_err());
    pulse.unacknowledge_change("0005").await.unwrap();
    pulse.acknowledge_change("0101", "ada").await.unwrap();
    let taken = pulse.changes().await.unwrap();
    let longest = taken.iter().flat_map(|change| &change.acknowledged);
    assert_eq!(longest.map(|taken| taken.by.len()).max(), Some(64));
}

const JSON: (&str, &str) = ("content-type", "application/json");

async fn take(app: &Router, id: &str, taken: bool, headers: &[(&str, &str)]) -> (u16, Value) {
    let body = json!({ "id": id, "taken": taken }).to_string();
    let headers = [&[JSON], headers].concat();
    let answer = asking::send(app, "POST", "/pulse/api/changes", &headers, &body).await;
    (answer.status.as_u16(), answer.json())
}

#[tokio::test]
async fn a_change_is_taken_over_http() {
    let fleet = fleet_of(Backend::memory(), 3).await;
    let ended = change("9999", "slower", "GET /b", (1.0, Some(START)));
    write(&fleet, vec![ended]).await;
    let app = &fleet.instances[1].app;
    // This instance lists an acknowledgement at once, the other one when it reads the store again.
    let is_listed = async |problems: u64| {
        fleet.instances[0].time.advance(Duration::from_secs(2));
        for instance in &fleet.instances {
            let listed = instance.json("api/changes").await;
            assert_eq!(listed["standing"], 3);
            assert_eq!(listed["problems"], problems);
        }
    };
    is_listed(3).await;
    let (status, taken) = take(app, "0001", true, &[]).await;
    assert_eq!((status, &taken["id"]), (200, &json!("0001")));
    assert_eq!(taken["taken"], json!({ "by": "someone", "at": fleet.now }));
    is_listed(2).await;
    let listed = fleet.instances[1].json("api/changes").await;
    let rows = listed["changes"].as_array().unwrap().iter();
    let taken: Vec<_> = rows.filter(|row| row["taken"]["by"] == "someone").collect();
    assert_eq!((taken.len(), &taken[0]["id"]), (1, &json!("0001")));

    let (status, given) = take(app, "0001", false, &[]).await;
    assert_eq!((status, &given["taken"]), (200, &Value::Null));
    for (id, expected) in [("9999", 409), ("none", 404), ("", 404)] {
        let (status, answer) = take(app, id, true, &[]).await;
        assert_eq!(status, expected, "{id}");
        assert!(answer["error"].as_str().unwrap().len() > 10, "{answer}");
    }
    is_listed(3).await;
}

/// The access names the person who acknowledges a change.
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
    let custom = Access::custom(named);
    let custom_async = Access::custom_async(move |parts| std::future::ready(named(parts)));
    let allowed = Access::custom(move |parts| user(parts).is_some());
    let (basic, token) = (Access::basic("ada", "secret"), Access::token("secret"));
    let (long, of_ada) = ("x".repeat(65), "Basic YWRhOnNlY3JldA==");
    for (access, name, value, expected) in [
        (&basic, "authorization", of_ada, Ok("ada")),
        (&token, "authorization", of_ada, Ok("someone")),
        (&Access::open(), "x-user", "ada", Ok("someone")),
        (&custom, "x-user", "bob <b>", Ok("bob <b>")),
        (&custom, "x-user", " ", Ok("someone")),
        (&custom, "x-user", &long, Ok(&long[..64])),
        (&custom, "x-user", "guest", Err(403)),
        (&custom, "x-other", "ada", Err(403)),
        (&allowed, "x-user", "ada", Ok("someone")),
        (&allowed, "x-other", "ada", Err(403)),
        (&custom_async, "x-user", "cleo", Ok("cleo")),
        (&custom_async, "x-user", "guest", Err(403)),
    ] {
        let app = Router::new().merge(pulse.mount("/pulse", access.clone()));
        let (status, answer) = take(&app, "0000", true, &[(name, value)]).await;
        let taken = match status {
            200 => Ok(answer["taken"]["by"].as_str().unwrap()),
            status => Err(status),
        };
        assert_eq!(taken, expected, "{access:?} {name}: {value}");
    }
    // A person with permission to read can read everything, but cannot write.
    let app = Router::new().merge(pulse.mount("/pulse", custom));
    let guest = [JSON, ("x-user", "guest")];
    for endpoint in ["api/changes", "api/marks", ""] {
        let uri = format!("/pulse/{endpoint}");
        let got = asking::send(&app, "GET", &uri, &guest, "").await;
        assert_eq!(got.status, 200, "{endpoint}");
    }
    for (method, endpoint) in [("POST", "marks"), ("DELETE", "marks?id=1")] {
        let uri = format!("/pulse/api/{endpoint}");
        let refused = asking::send(&app, method, &uri, &guest, r#"{"text": "x"}"#).await;
        assert_eq!(refused.status, 403);
        assert!(refused.text.contains("read"), "{refused:?}");
    }
    let marks = pulse.query().ask(&MarksQuery::default()).await.unwrap();
    assert_eq!(marks.marks, []);
}

/// A suspected mark that is removed is no longer listed as a suspect, in code and over HTTP.
#[tokio::test]
async fn a_mark_that_was_removed_is_no_suspect() {
    let fleet = fleet_of(Backend::memory(), 0).await;
    let pulse = &fleet.instances[0].pulse;
    let tried = pulse.mark("tried").await.unwrap();
    let index = pulse.mark("new index").await.unwrap();
    let suspects = [&tried, &index].map(|mark| {
        json!({
            "kind": "deploy", "mark": mark.id, "text": mark.text, "version": null,
            "seconds_before": 60, "side_by_side": null,
        })
    });
    let mut suspected = serde_json::to_value(change("1", "slower", "GET /a", (1.0, None))).unwrap();
    suspected["suspects"] = json!(suspects);
    write(&fleet, vec![serde_json::from_value(suspected).unwrap()]).await;
    let are_suspected = async |expected: &[&str]| {
        let changes = serde_json::to_value(pulse.changes().await.unwrap()).unwrap();
        let listed = fleet.instances[0].json("api/changes").await["changes"].take();
        for of in [changes, listed] {
            let suspects = of[0]["suspects"].as_array().unwrap().iter();
            let texts: Vec<_> = suspects.map(|one| one["text"].as_str().unwrap()).collect();
            assert_eq!(texts, expected);
        }
    };
    are_suspected(&["tried", "new index"]).await;
    pulse.remove_mark(&tried.id).await.unwrap();
    fleet.set_clocks(fleet.now + 5);
    are_suspected(&["new index"]).await;
    let listed = fleet.instances[0].json("api/changes").await;
    assert_eq!(listed["changes"][0]["deploy"]["mark"]["text"], "new index");
}

/// Redis goes away: an acknowledgement fails, and says that it may still be written.
#[tokio::test]
async fn while_redis_is_away_nothing_is_said_to_be_taken() {
    let fleet = fleet_of(Backend::redis().await, 1).await;
    fleet.backend.server().kill_9();
    let pulse = &fleet.instances[0].pulse;
    let failed = pulse.acknowledge_change("0000", "ada").await.unwrap_err();
    assert!(matches!(&failed, AmendError::Store(_)), "{failed:?}");
    assert!(failed.to_string().contains("may still be taken"));
    let (status, answer) = take(&fleet.instances[0].app, "0000", true, &[]).await;
    assert_eq!(status, 503);
    assert!(answer["error"].as_str().unwrap().contains("may still be"));
}

in_both!(a_taken_change_stays_taken_until_it_ends);
