//! An acknowledged change stays acknowledged until it ends, on all instances.

use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};
use tower_pulse::admin::{Access, Permission};
use tower_pulse::{AmendError, Pulse};

use crate::changes::api::{change, write};
use crate::changes::fleet::{Backend, Fleet, START};
use crate::changes::traffic::Traffic;
use crate::rig::asking;
use crate::rig::seed::fixed_seed;

/// The acknowledgement of the first listed change, as each instance reports it: the person, and the Unix second.
async fn people(fleet: &Fleet) -> Vec<Option<(String, i64)>> {
    let mut people = Vec::new();
    for instance in &fleet.instances {
        let changes = instance.pulse.changes().await.unwrap();
        let acknowledged = changes[0].acknowledged.as_ref();
        people.push(acknowledged.map(|by| (by.by.to_string(), by.at)));
    }
    people
}

fn by(name: &str, at: i64) -> Vec<Option<(String, i64)>> {
    vec![Some((name.to_owned(), at)); 2]
}

#[tokio::test]
async fn an_acknowledgement_stays_until_the_change_ends() {
    let mut fleet = Fleet::new(Backend::memory(), 2);
    let mut traffic = Traffic::new(fixed_seed(), 2);
    fleet.usual(&mut traffic, 45).await;
    fleet.slow(&mut traffic, 5).await;
    let id = &*fleet.changes().await.remove(0).id;
    let pulse = |fleet: &Fleet, number: usize| fleet.instances[number].pulse.clone();
    // The instance that does not judge acknowledges the change.
    let at = fleet.now;
    let done = pulse(&fleet, 1).acknowledge_change(id, " ada ").await;
    assert_eq!(done.unwrap().acknowledged.unwrap().at, at);
    assert_eq!(people(&fleet).await, by("ada", at));
    fleet.slow(&mut traffic, 1).await;
    fleet.restart(0).await;
    fleet.slow(&mut traffic, 1).await;
    assert_eq!(people(&fleet).await, by("ada", at));
    // The second withdrawal changes nothing.
    for number in [0, 1] {
        let withdrawn = pulse(&fleet, number).unacknowledge_change(id).await;
        assert_eq!(withdrawn.unwrap().acknowledged, None);
        assert_eq!(people(&fleet).await, [None, None]);
    }
    let at = fleet.now;
    for (number, name, shown) in [
        (0, "ada", "ada"),
        (1, "", "someone"),
        (0, "bob\u{202e}", "bob\\u{202e}"),
    ] {
        let done = pulse(&fleet, number).acknowledge_change(id, name).await;
        assert_eq!(&*done.unwrap().acknowledged.unwrap().by, shown);
    }
    for number in 0..2 {
        fleet.restart(number).await;
    }
    for _ in 0..4 {
        fleet.slow(&mut traffic, 1).await;
        assert_eq!(people(&fleet).await, by("bob\\u{202e}", at));
    }
    fleet.usual(&mut traffic, 15).await;
    assert!(fleet.changes().await[0].ended.is_some());
    assert_eq!(people(&fleet).await, [None, None]);
    let pulse = pulse(&fleet, 1);
    let refused = pulse.unacknowledge_change(id).await.unwrap_err();
    assert!(matches!(refused, AmendError::Conflict(_)), "{refused:?}");
    pulse.shutdown().await.unwrap();
    let refused = pulse.acknowledge_change(id, "ada").await.unwrap_err();
    assert!(refused.to_string().contains("shutdown"), "{refused}");
}

/// A fleet of two instances, with ongoing changes that have the ids `0000`, `0001`, …
async fn fleet_of(backend: Backend, ids: usize) -> Fleet {
    let fleet = Fleet::new(backend, 2);
    fleet.flush().await.unwrap();
    let changes = (0..ids).map(|n| change(&format!("{n:04}"), "slower", "GET /a", (1.0, None)));
    write(&fleet, changes.collect()).await;
    fleet
}

#[tokio::test]
async fn if_two_people_acknowledge_a_change_at_once_one_acknowledgement_stays() {
    let fleet = fleet_of(Backend::redis().await, 2).await;
    let [a, b] = [0, 1].map(|number| &fleet.instances[number].pulse);
    for round in 0..20 {
        let names = [format!("ada {round}"), format!("bob {round}")];
        let (ada, bob, other) = tokio::join!(
            a.acknowledge_change("0000", &names[0]),
            b.acknowledge_change("0000", &names[1]),
            b.acknowledge_change("0001", &names[0]),
        );
        for (done, name) in [ada, bob].into_iter().zip(&names) {
            assert_eq!(&*done.unwrap().acknowledged.unwrap().by, name);
        }
        other.unwrap();
        let read = async |pulse: &Pulse| {
            let mut changes = pulse.changes().await.unwrap();
            changes.sort_by(|a, b| a.id.cmp(&b.id));
            [0, 1].map(|at| changes[at].acknowledged.clone().unwrap().by.to_string())
        };
        let people = read(a).await;
        assert_eq!(people, read(b).await);
        assert!(names.contains(&people[0]), "{people:?}");
        assert_eq!(people[1], names[0]);
    }
}

#[tokio::test]
async fn at_most_a_hundred_changes_are_acknowledged_and_ended_changes_make_room() {
    let fleet = fleet_of(Backend::memory(), 102).await;
    let pulse = &fleet.instances[0].pulse;
    let name = "é".repeat(70);
    for n in 0..100 {
        let done = pulse.acknowledge_change(&format!("{n:04}"), &name).await;
        done.unwrap();
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
    let changes = pulse.changes().await.unwrap();
    let longest = changes.iter().flat_map(|change| &change.acknowledged);
    assert_eq!(longest.map(|one| one.by.len()).max(), Some(64));
}

const JSON: (&str, &str) = ("content-type", "application/json");

type Headers<'a> = [(&'a str, &'a str)];

async fn post(app: &Router, body: Value, headers: &Headers<'_>) -> (u16, Value) {
    let (uri, headers) = ("/pulse/api/changes", [&[JSON], headers].concat());
    let answer = asking::send(app, "POST", uri, &headers, &body.to_string()).await;
    (answer.status.as_u16(), answer.json())
}

async fn acknowledge(app: &Router, id: &str, headers: &Headers<'_>) -> (u16, Value) {
    post(app, json!({ "id": id, "acknowledged": true }), headers).await
}

#[tokio::test]
async fn a_change_is_acknowledged_over_http() {
    let fleet = fleet_of(Backend::memory(), 3).await;
    let ended = change("9999", "slower", "GET /b", (1.0, Some(START)));
    write(&fleet, vec![ended]).await;
    let app = &fleet.instances[1].app;
    // The instance of `app` lists an acknowledgement at once, the other instance after its next read of the store.
    let assert_listed = async |acknowledged: u64| {
        fleet.instances[0].time.advance(Duration::from_secs(2));
        for instance in &fleet.instances {
            let listed = instance.json("api/changes").await;
            let counts = ["ongoing", "problems", "acknowledged"].map(|name| &listed[name]);
            assert_eq!(counts, [3, 3, acknowledged]);
        }
    };
    assert_listed(0).await;
    let (status, answer) = acknowledge(app, "0001", &[]).await;
    assert_eq!((status, &answer["id"]), (200, &json!("0001")));
    let by_someone = json!({ "by": "someone", "at": fleet.now });
    assert_eq!(answer["acknowledged"], by_someone);
    assert_listed(1).await;
    let listed = fleet.instances[1].json("api/changes").await;
    let rows = listed["changes"].as_array().unwrap().iter();
    let acknowledged = rows.filter(|row| row["acknowledged"] == by_someone);
    let ids: Vec<_> = acknowledged.map(|row| &row["id"]).collect();
    assert_eq!(ids, ["0001"]);

    let withdrawn = json!({ "id": "0001", "acknowledged": false });
    let (status, answer) = post(app, withdrawn, &[]).await;
    assert_eq!((status, &answer["acknowledged"]), (200, &Value::Null));
    for (id, expected) in [("9999", 409), ("none", 404), ("", 404)] {
        let (status, answer) = acknowledge(app, id, &[]).await;
        assert_eq!(status, expected, "{id}");
        assert!(answer["error"].as_str().unwrap().len() > 10, "{answer}");
    }
    assert_listed(0).await;
}

#[tokio::test]
async fn the_person_is_named_by_the_access_or_else_by_the_request() {
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
    // In base64: `ada:secret`, and `:secret`, which has no user.
    let (long, of_ada) = ("x".repeat(65), "Basic YWRhOnNlY3JldA==");
    let without_user = "Basic OnNlY3JldA==";
    for (access, name, value, expected) in [
        (&basic, "authorization", of_ada, Ok("ada")),
        (&token, "authorization", of_ada, Ok("ada")),
        (&token, "authorization", without_user, Ok("someone")),
        (&token, "authorization", "Bearer secret", Ok("someone")),
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
        let (status, answer) = acknowledge(&app, "0000", &[(name, value)]).await;
        let by = match status {
            200 => Ok(answer["acknowledged"]["by"].as_str().unwrap()),
            status => Err(status),
        };
        assert_eq!(by, expected, "{access:?} {name}: {value}");
        // The request may name the person only if the access does not.
        let said = json!({ "id": "0000", "acknowledged": true, "by": " mallory\u{202e} " });
        let (status, answer) = post(&app, said, &[(name, value)]).await;
        match expected {
            Ok("someone") => assert_eq!(answer["acknowledged"]["by"], "mallory\\u{202e}"),
            Ok(_) => assert_eq!((status, &answer["parameter"]), (400, &json!("by"))),
            Err(expected) => assert_eq!(status, expected),
        }
    }
    let app = Router::new().merge(pulse.mount("/pulse", custom));
    let guest = [("x-user", "guest")];
    let got = asking::send(&app, "GET", "/pulse/api/changes", &guest, "").await;
    assert_eq!(got.status, 200);
}

#[tokio::test]
async fn a_removed_mark_is_no_longer_a_suspect() {
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
    let assert_suspected = async |expected: &[&str]| {
        let changes = serde_json::to_value(pulse.changes().await.unwrap()).unwrap();
        let listed = fleet.instances[0].json("api/changes").await["changes"].take();
        for answer in [changes, listed] {
            let suspects = answer[0]["suspects"].as_array().unwrap().iter();
            let texts: Vec<_> = suspects.map(|one| one["text"].as_str().unwrap()).collect();
            assert_eq!(texts, expected);
        }
    };
    assert_suspected(&["tried", "new index"]).await;
    pulse.remove_mark(&tried.id).await.unwrap();
    fleet.set_clocks(fleet.now + 5);
    assert_suspected(&["new index"]).await;
    let listed = fleet.instances[0].json("api/changes").await;
    assert_eq!(listed["changes"][0]["deploy"]["mark"]["text"], "new index");
}

#[tokio::test]
async fn an_acknowledgement_fails_while_redis_is_away() {
    let fleet = fleet_of(Backend::redis().await, 1).await;
    fleet.backend.server().kill_9();
    let pulse = &fleet.instances[0].pulse;
    let failed = pulse.acknowledge_change("0000", "ada").await.unwrap_err();
    assert!(matches!(&failed, AmendError::Store(_)), "{failed:?}");
    assert!(failed.to_string().contains("may still be acknowledged"));
    let (status, answer) = acknowledge(&fleet.instances[0].app, "0000", &[]).await;
    assert_eq!(status, 503);
    assert!(answer["error"].as_str().unwrap().contains("may still be"));
}
