//! The webhook of the guide and of the example.

use std::sync::{Arc, Mutex};

use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

use crate::changes::fleet::{Backend, Fleet, MINUTE, START};
use crate::changes::notify;
use crate::changes::traffic::{SEARCH, Traffic, slow_down};

#[test]
fn the_guide_has_the_code_that_is_tested() {
    let guide = include_str!("../../src/guide/changes.md");
    let (_, code) = include_str!("../../examples/webhook/notify.rs")
        .split_once("\n\n")
        .unwrap();
    let code = code.replace("pub(crate) ", "");
    assert!(guide.contains(&code), "the guide lacks {code}");
    let caller = include_str!("../../examples/webhook/main.rs");
    let call = "tracing::error!(%error, \"posting to the webhook failed\")";
    assert!(guide.contains(call) && caller.contains(call));
}

#[tokio::test]
async fn a_change_is_posted_to_a_server() {
    let posted: Arc<Mutex<Vec<Value>>> = Arc::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let received = posted.clone();
    // `Json` refuses a body without the content type of JSON.
    let hook = async move |Json(body): Json<Value>| received.lock().unwrap().push(body);
    let server = Router::new().route("/hook", post(hook));
    tokio::spawn(async move { axum::serve(listener, server).await });

    let mut fleet = Fleet::new(Backend::memory(), 1);
    fleet.instances[0].pulse.on_change(move |change| {
        notify::post(&url, change).unwrap();
    });
    let mut traffic = Traffic::new(1, 1);
    let slow_at = START + 60 * MINUTE;
    while posted.lock().unwrap().is_empty() {
        assert!(fleet.now < slow_at + 15 * MINUTE, "nothing was posted");
        let mut requests = traffic.minute();
        if fleet.now == slow_at {
            fleet.instances[0].pulse.mark("new index").await.unwrap();
        }
        if fleet.now >= slow_at {
            slow_down(&mut requests, SEARCH, 2.0);
        }
        fleet.pass_and_judge(&requests).await;
    }
    let body = posted.lock().unwrap().remove(0);
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("{SEARCH} takes ")), "{text}");
    assert!(fleet.now > slow_at, "{body}");
    // The webhook and the API name the cause in the same words.
    let listed = fleet.instances[0].json("api/changes").await["changes"][0].take();
    let explanation = listed["explanation"].as_str().unwrap();
    assert!(
        explanation.starts_with("Suspect: mark “new index”, as the change began"),
        "{explanation}"
    );
    assert!(text.ends_with(&format!(". {explanation}")), "{text}");
    // The change is written as text and read again, because text rounds floats.
    let change = serde_json::to_string(&fleet.changes().await[0]).unwrap();
    assert_eq!(
        body["change"],
        serde_json::from_str::<Value>(&change).unwrap()
    );
}
