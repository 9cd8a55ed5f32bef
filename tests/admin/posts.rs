//! Marks that are posted: how many, and how fast.

use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};
use tower_pulse::admin::Access;
use tower_pulse::{Builder, Clock, ManualClock, Pulse};

use crate::serve;
use pulse_rig::http::{Client, Response};
use pulse_rig::server::RedisServer;

const NOW: i64 = 1_700_000_000;
const TOKEN: (&str, &str) = ("authorization", "Bearer secret");
const JSON: (&str, &str) = ("content-type", "application/json");

async fn served(builder: Builder) -> (Client, ManualClock) {
    let (clock, hand) = Clock::manual(NOW);
    let (pulse, _tasks) = builder.clock(clock).build_with_tasks().unwrap();
    // Makes the mark of the version.
    pulse.simulation().heartbeat().await.unwrap();
    let app = Router::new().merge(pulse.mount("/pulse", Access::token("secret")));
    (Client::connect(serve(app).await).await, hand)
}

async fn post(client: &mut Client, headers: &[(&str, &str)], text: &str) -> Response {
    let body = json!({ "text": text }).to_string();
    client
        .request("POST", "/pulse/api/marks", headers, body)
        .await
}

async fn marks(client: &mut Client) -> Vec<Value> {
    let answer = client
        .request("GET", "/pulse/api/marks", &[TOKEN], "")
        .await;
    answer.json()["marks"].as_array().unwrap().clone()
}

async fn posts_leave_the_deploys_alone(builder: Builder) {
    let (mut client, hand) = served(builder.app_version("1.4.2")).await;
    for number in 0..70 {
        hand.advance(Duration::from_secs(1));
        let made = post(&mut client, &[TOKEN, JSON], &format!("mark {number}")).await;
        assert_eq!(made.status, 201, "{number}");
    }
    hand.advance(Duration::from_secs(1));
    let marks = marks(&mut client).await;
    let texts: Vec<_> = marks
        .iter()
        .map(|mark| mark["text"].as_str().unwrap())
        .collect();
    let newest: Vec<_> = (20..70)
        .rev()
        .map(|number| format!("mark {number}"))
        .collect();
    assert_eq!((texts.len(), texts[50]), (51, "version 1.4.2"));
    assert_eq!(texts[..50], newest);
    let deploy = client
        .request(
            "GET",
            "/pulse/api/deploy?mark=1700000000-1.4.2",
            &[TOKEN],
            "",
        )
        .await;
    assert_eq!(deploy.status, 200);
}

#[tokio::test]
async fn posts_leave_the_deploys_alone_in_memory() {
    posts_leave_the_deploys_alone(Pulse::builder()).await;
}

#[tokio::test]
async fn posts_leave_the_deploys_alone_in_redis() {
    let server = RedisServer::start().await;
    posts_leave_the_deploys_alone(Pulse::builder().redis(server.url())).await;
}

#[tokio::test]
async fn posts_beyond_a_burst_are_refused_until_time_has_passed() {
    let (mut client, hand) = served(Pulse::builder()).await;
    // Requests that may not make a mark take nothing from those that may.
    for _ in 0..100 {
        assert_eq!(post(&mut client, &[JSON], "a").await.status, 401);
        assert_eq!(post(&mut client, &[TOKEN], "a").await.status, 415);
        let foreign = ("sec-fetch-site", "cross-site");
        assert_eq!(
            post(&mut client, &[TOKEN, JSON, foreign], "a").await.status,
            403
        );
    }
    let mut statuses = async |posts: usize| {
        let mut statuses = Vec::new();
        for _ in 0..posts {
            let answer = post(&mut client, &[TOKEN, JSON], "deploy").await;
            if answer.status == 429 {
                assert_eq!(answer.header("retry-after"), Some("1"));
                let error = answer.json()["error"].as_str().unwrap().to_owned();
                assert!(
                    error.contains("60") && error.contains("one more each second"),
                    "{error}"
                );
            }
            statuses.push(answer.status);
        }
        statuses
    };
    assert_eq!(
        statuses(62).await,
        [[201; 60].as_slice(), &[429; 2]].concat()
    );
    hand.advance(Duration::from_secs(1));
    assert_eq!(statuses(2).await, [201, 429]);
    hand.advance(Duration::from_millis(2_500));
    assert_eq!(statuses(3).await, [201, 201, 429]);
    hand.advance(Duration::from_secs(3_600));
    assert_eq!(statuses(61).await, [[201; 60].as_slice(), &[429]].concat());
}

#[tokio::test]
async fn two_mounts_accept_as_many_posts_as_one() {
    let (clock, _hand) = Clock::manual(NOW);
    let builder = Pulse::builder().clock(clock);
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    let app = Router::new()
        .merge(pulse.mount("/pulse", Access::token("secret")))
        .merge(pulse.mount("/other", Access::token("secret")));
    let mut client = Client::connect(serve(app).await).await;
    let mut accepted = 0;
    for number in 0..122 {
        let path = ["/pulse/api/marks", "/other/api/marks"][number % 2];
        let body = json!({ "text": "again" }).to_string();
        let answer = client.request("POST", path, &[TOKEN, JSON], body).await;
        assert!([201, 429].contains(&answer.status), "{}", answer.status);
        accepted += usize::from(answer.status == 201);
    }
    assert_eq!(accepted, 60);
}
