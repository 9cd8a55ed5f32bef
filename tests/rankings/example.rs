//! The example `leaderboard` over HTTP, and its keys as the article's functions read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use pulse_rig::demo::{Demo, built_example};
use pulse_rig::http::Client;
use pulse_rig::proxy::Proxy;
use pulse_rig::server::{RedisServer, issue};
use pulse_rig::wait::{PATIENCE, look_until};

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

/// Likes, which are all there when they are answered.
async fn scenario(client: &mut Client) {
    assert_eq!(client.json("/top").await, json!([]));
    for (id, n) in [
        ("7", ""),
        ("9", "?n=5"),
        ("7", "?n=2"),
        ("12", "?n=3"),
        ("8", "?n=1"),
    ] {
        assert_eq!(like(client, id, n).await, 204, "{id} {n}");
    }
    let all = json!([
        {"id": "9", "score": 5}, {"id": "7", "score": 3}, {"id": "12", "score": 3}, {"id": "8", "score": 1}
    ]);
    assert_eq!(client.json("/top").await, all);
    assert_eq!(like(client, "8", "?n=-1").await, 204);
    let page = client.json("/top?offset=1&limit=2").await;
    assert_eq!(
        page,
        json!([{"id": "7", "score": 3}, {"id": "12", "score": 3}])
    );
    assert_eq!(client.json("/top?offset=3").await, json!([]));
    for n in ["?n=", "?n=x", "?n=1.5", "?n=99999999999999999999"] {
        assert_eq!(like(client, "7", n).await, 400, "{n}");
    }
    assert_eq!(client.get("/top?limit=-1").await.status, 400);
    let ranking = client
        .json("/admin/pulse/api/rankings?name=posts&limit=1")
        .await;
    assert_eq!(ranking["ids"], json!([{"id": "9", "score": 5, "rank": 0}]));
    assert_eq!(ranking["total"], json!(3));
    assert_eq!(ranking["period"], json!(86_400));
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_secs() as i64
}

/// The likes were answered with 204, and dropped.
#[tokio::test]
async fn a_like_that_is_dropped_is_answered_with_the_key_and_what_to_do() {
    let server = RedisServer::start().await;
    let env = [("REDIS_URL", &*server.url()), ("PULSE_PREFIX", "")];
    let (_example, mut client) = start(&env).await;
    assert_eq!(like(&mut client, "7", "").await, 204);
    let mut conn = server.connection().await;
    for key in [
        "stats_posts".to_owned(),
        format!("slot_posts_{}", unix_seconds() / HOUR * HOUR),
    ] {
        let () = issue(&mut conn, "SET", (&key, "x")).await;
        for _ in 0..2 {
            let path = "/posts/7/like".to_owned();
            let answer = client.request("POST", path, &[], "").await;
            let text = answer.text();
            assert_eq!(answer.status, 503, "{key}: {text}");
            assert!(text.contains(&key) && text.contains("delete"), "{text}");
        }
        let () = issue(&mut conn, "DEL", &key).await;
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
async fn in_memory_likes_are_there_when_they_are_answered() {
    let (_example, mut client) = start(&[]).await;
    scenario(&mut client).await;
}

#[tokio::test]
async fn in_redis_a_restart_keeps_the_ranking() {
    let server = RedisServer::start().await;
    let env = [("REDIS_URL", &*server.url())];
    let (example, mut client) = start(&env).await;
    scenario(&mut client).await;
    let before = client.json("/top").await;
    drop(client);
    example.signal("TERM");
    let exit = example.wait_exit(Duration::from_secs(10)).await;
    assert!(
        exit.is_some_and(|exit| exit.success()),
        "{}",
        example.stderr()
    );
    let (_example, mut client) = start(&env).await;
    assert_eq!(client.json("/top").await, before);
}

#[tokio::test]
async fn a_hundred_clients_at_once_share_flushes() {
    let server = RedisServer::start().await;
    let (example, mut client) = start(&[("REDIS_URL", &*server.url())]).await;
    assert_eq!(like(&mut client, "7", "").await, 204);
    let commands = async || {
        let info = server.info("stats").await;
        info["total_commands_processed"].parse::<u64>().unwrap()
    };
    let before = commands().await;
    let address = example.address();
    let likes = (0..100).map(|_| async move {
        let mut client = Client::connect(address).await;
        like(&mut client, "7", "").await
    });
    let answers = futures_util::future::join_all(likes).await;
    assert_eq!(answers, [204; 100]);
    assert_eq!(
        client.json("/top").await,
        json!([{"id": "7", "score": 101}])
    );
    let calls = commands().await - before;
    eprintln!("{calls} commands for 100 clients");
    assert!(calls < 900, "{calls} commands for 100 clients");
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
    pulse_rig::wait::until("the like is counted", async || {
        let top = client.get("/top").await;
        top.status == 200 && top.json()[0]["score"] == 2
    })
    .await;
    assert_eq!(like(&mut client, "7", "").await, 204);
    assert_eq!(client.json("/top").await[0]["score"], 3);
}

/// `DyStats.get_stats_list(offset, limit, withscores=True)` of the article: its page has one more row than `limit`.
async fn get_stats_list(
    conn: &mut MultiplexedConnection,
    offset: isize,
    limit: isize,
) -> Vec<(i64, f64)> {
    let page: Vec<(i64, f64)> = issue(
        conn,
        "ZREVRANGE",
        ("stats_posts", offset, offset + limit, "WITHSCORES"),
    )
    .await;
    page
}

#[tokio::test]
async fn the_articles_functions_read_the_ranking() {
    let server = RedisServer::start().await;
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs() as i64
    };
    let (before, env) = (now(), [("REDIS_URL", &*server.url()), ("PULSE_PREFIX", "")]);
    let (_example, mut client) = start(&env).await;
    scenario(&mut client).await;
    let mut conn = server.connection().await;
    let conn = &mut conn;
    assert_eq!(get_stats_list(conn, 0, 1).await, [(9, 5.0), (7, 3.0)]);
    assert_eq!(get_stats_list(conn, 1, 10).await, [(7, 3.0), (12, 3.0)]);
    let last: i64 = issue(conn, "GET", "last_slot_posts").await;
    // The hour may have turned during the scenario.
    let hours = before / HOUR * HOUR..=now() / HOUR * HOUR;
    assert!(hours.contains(&last) && last % HOUR == 0, "{last}");
    let mut sums = std::collections::BTreeMap::new();
    for slot in hours.step_by(HOUR as usize) {
        let key = format!("slot_posts_{slot}");
        let counts: Vec<(i64, i64)> = issue(conn, "HGETALL", key).await;
        for (id, n) in counts {
            *sums.entry(id).or_insert(0) += n;
        }
    }
    sums.retain(|_, n| *n != 0);
    assert_eq!(
        sums.into_iter().collect::<Vec<_>>(),
        [(7, 3), (9, 5), (12, 3)]
    );
    let overview: Value = client.json("/admin/pulse/api/rankings").await;
    assert_eq!(overview["rankings"][0]["ids"], 3);
}
