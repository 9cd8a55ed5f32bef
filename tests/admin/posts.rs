//! The limit on the number of requests that write.

use std::time::Duration;

use axum::Router;
use serde_json::json;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Pulse};

use crate::admin::{client_of, serve};
use crate::rig::http::{Client, Response};

const NOW: i64 = 1_700_000_000;
const TOKEN: (&str, &str) = ("authorization", "Bearer secret");
const JSON: (&str, &str) = ("content-type", "application/json");

async fn post(client: &mut Client, headers: &[(&str, &str)], text: &str) -> Response {
    let body = json!({ "text": text }).to_string();
    client
        .request("POST", "/pulse/api/marks", headers, body)
        .await
}

#[tokio::test]
async fn posts_beyond_a_burst_are_refused_until_time_has_passed() {
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = Pulse::builder().clock(clock);
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    let mut client = client_of(&pulse, Access::token("secret")).await;
    // Refused requests do not count toward the limit.
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
    manual_clock.advance(Duration::from_secs(1));
    assert_eq!(statuses(2).await, [201, 429]);
    manual_clock.advance(Duration::from_millis(2_500));
    assert_eq!(statuses(3).await, [201, 201, 429]);
    manual_clock.advance(Duration::from_secs(3_600));
    assert_eq!(statuses(61).await, [[201; 60].as_slice(), &[429]].concat());
}

#[tokio::test]
async fn two_mounts_accept_as_many_posts_as_one() {
    let (clock, _manual_clock) = Clock::manual(NOW);
    let builder = Pulse::builder().clock(clock);
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    let app = Router::new()
        .merge(pulse.mount("/pulse", Access::token("secret")))
        .merge(pulse.mount("/other", Access::token("secret")));
    let mut client = Client::connect(serve(app).await).await;
    let mut refused = 0;
    for number in 0..72 {
        let mount = ["pulse", "other"][number % 2];
        let (method, endpoint, body, accepted) = [
            ("POST", "marks", r#"{"text": "again"}"#, 201),
            (
                "POST",
                "changes",
                r#"{"id": "none", "acknowledged": true}"#,
                404,
            ),
            ("DELETE", "marks?id=none", "", 404),
        ][number % 3];
        let path = format!("/{mount}/api/{endpoint}");
        let answer = client.request(method, &path, &[TOKEN, JSON], body).await;
        assert!([accepted, 429].contains(&answer.status), "{answer:?}");
        refused += usize::from(answer.status == 429);
    }
    assert_eq!(refused, 12);
}
