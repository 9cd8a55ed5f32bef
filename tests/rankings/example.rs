//! The example `leaderboard` over HTTP. Other programs can read the example's keys, which
//! `src/guide/counters_rankings_rows.md` describes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tower_pulse::Clock;

use crate::rig::demo::{Demo, built_example};
use crate::rig::http::Client;
use crate::rig::proxy::Proxy;
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::{PATIENCE, look_until, until};

const HOUR: i64 = 3_600;

async fn start(env: &[(&str, &str)]) -> (Demo, Client) {
    let example = Demo::start(built_example("leaderboard"), env).await;
    let client = Client::connect(example.address()).await;
    (example, client)
}

async fn like(client: &mut Client, id: &str, n: &str) -> u16 {
    let path = format!("/posts/{id}/like{n}");
    client.request("POST", path, &[], "").await.status
}

/// Likes posts. Each like can be read as soon as its request is answered.
async fn scenario(client: &mut Client) {
    assert_eq!(client.json("/top").await, json!([]));
    for liked in ["7", "9?n=5", "7?n=2", "12?n=3", "8?n=1"] {
        let (id, n) = liked.split_at(liked.find('?').unwrap_or(liked.len()));
        assert_eq!(like(client, id, n).await, 204, "{id} {n}");
    }
    let post = |id: &str, score: i64| json!({"id": id, "score": score});
    let all = json!([post("9", 5), post("7", 3), post("12", 3), post("8", 1)]);
    assert_eq!(client.json("/top").await, all);
    assert_eq!(like(client, "8", "?n=-1").await, 204);
    let page = client.json("/top?offset=1&limit=2").await;
    assert_eq!(page, json!([post("7", 3), post("12", 3)]));
    assert_eq!(client.json("/top?offset=3").await, json!([]));
    for n in ["?n=", "?n=x", "?n=1.5", "?n=99999999999999999999"] {
        assert_eq!(like(client, "7", n).await, 400, "{n}");
    }
    assert_eq!(client.get("/top?limit=-1").await.status, 400);
    let uri = "/admin/pulse/api/rankings?name=posts&limit=1";
    let ranking = client.json(uri).await;
    assert_eq!(ranking["ids"], json!([{"id": "9", "score": 5, "rank": 0}]));
    assert_eq!(ranking["total"], json!(3));
    assert_eq!(ranking["period"], json!(86_400));
}

fn unix_seconds() -> i64 {
    Clock::system().now_seconds()
}

/// A like that is answered with 204 must be stored.
#[tokio::test]
async fn a_like_that_is_not_stored_is_answered_with_the_key_and_the_remedy() {
    let server = RedisServer::start().await;
    let env = [("REDIS_URL", &*server.url()), ("PULSE_PREFIX", "")];
    let (_example, mut client) = start(&env).await;
    assert_eq!(like(&mut client, "7", "").await, 204);
    let mut conn = server.connection().await;
    let slot = format!("slot_posts_{}", unix_seconds() / HOUR * HOUR);
    for key in ["stats_posts", &slot] {
        let () = issue(&mut conn, "SET", (key, "x")).await;
        for _ in 0..2 {
            let path = "/posts/7/like".to_owned();
            let answer = client.request("POST", path, &[], "").await;
            let text = answer.text();
            assert_eq!(answer.status, 503, "{key}: {text}");
            assert!(text.contains(key) && text.contains("delete"), "{text}");
        }
        let () = issue(&mut conn, "DEL", key).await;
        assert_eq!(like(&mut client, "7", "").await, 204, "{key}");
    }
    look_until(PATIENCE, async || {
        let health = client.json("/admin/pulse/api/health").await;
        let warnings = health["warnings"].to_string();
        (!warnings.contains("_posts")).then_some(()).ok_or(warnings)
    })
    .await;
}

#[tokio::test]
async fn in_memory_a_like_can_be_read_once_it_is_answered() {
    let (_example, mut client) = start(&[]).await;
    scenario(&mut client).await;
}

#[tokio::test]
async fn in_redis_other_programs_read_the_ranking_and_a_restart_keeps_it() {
    let server = RedisServer::start().await;
    let env = [("REDIS_URL", &*server.url()), ("PULSE_PREFIX", "")];
    let before = unix_seconds();
    let (example, mut client) = start(&env).await;
    scenario(&mut client).await;
    for (page, expected) in [
        ("0 1", [(9, 5.0), (7, 3.0)]),
        ("1 11", [(7, 3.0), (12, 3.0)]),
    ] {
        let read = format!("ZREVRANGE stats_posts {page} WITHSCORES");
        let page: Vec<(i64, f64)> = server.run(&read).await;
        assert_eq!(page, expected);
    }
    let last: i64 = server.run("GET last_slot_posts").await;
    // A new hour may have begun during the scenario.
    let hours = before / HOUR * HOUR..=unix_seconds() / HOUR * HOUR;
    assert!(hours.contains(&last) && last % HOUR == 0, "{last}");
    let mut sums = BTreeMap::new();
    for slot in hours.step_by(HOUR as usize) {
        let counts = format!("HGETALL slot_posts_{slot}");
        let counts: Vec<(i64, i64)> = server.run(&counts).await;
        for (id, n) in counts {
            *sums.entry(id).or_insert(0) += n;
        }
    }
    sums.retain(|_, n| *n != 0);
    assert_eq!(sums, BTreeMap::from([(7, 3), (9, 5), (12, 3)]));

    let before = client.json("/top").await;
    drop(client);
    example.signal("TERM");
    let exit = example.wait_exit(Duration::from_secs(10)).await;
    let is_success = exit.is_some_and(|exit| exit.success());
    assert!(is_success, "{}", example.stderr());
    let (_example, mut client) = start(&env).await;
    assert_eq!(client.json("/top").await, before);
}

#[tokio::test]
async fn without_an_answer_of_the_store_a_like_is_recorded_and_counted_once() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (_example, mut client) = start(&[("REDIS_URL", &*proxy.url())]).await;
    assert_eq!(like(&mut client, "7", "").await, 204);
    proxy.refuse(true);
    proxy.cut();
    assert_eq!(like(&mut client, "7", "").await, 202);
    assert_eq!(client.get("/top").await.status, 503);
    proxy.heal();
    until("the like is counted", async || {
        let top = client.get("/top").await;
        top.status == 200 && top.json()[0]["score"] == 2
    })
    .await;
    assert_eq!(like(&mut client, "7", "").await, 204);
    assert_eq!(client.json("/top").await[0]["score"], 3);
}
