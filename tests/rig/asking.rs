//! Requests to a router in this process.

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderMap, Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt;

use super::wait::{PATIENCE, look_until};

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    /// The text as JSON; null if the text is not JSON. Panics if an object has a field twice, because a parser keeps
    /// only one of the two.
    pub fn json(&self) -> Value {
        let json: Value = serde_json::from_str(&self.text).unwrap_or_default();
        let written = self.text.matches("\":").count() - self.text.matches("\\\":").count();
        if !json.is_null() {
            assert_eq!(written, fields(&json), "a field is written twice");
        }
        json
    }
}

/// The number of fields of all objects in a value.
fn fields(json: &Value) -> usize {
    match json {
        Value::Array(values) => values.iter().map(fields).sum(),
        Value::Object(object) => object.len() + object.values().map(fields).sum::<usize>(),
        _ => 0,
    }
}

/// Sends a request to the host `localhost`, unless `headers` have another host.
pub async fn send(
    app: &Router,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(uri);
    if headers.iter().all(|(name, _)| *name != "host") {
        request = request.header("host", "localhost");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let (head, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    Answer {
        status: head.status,
        headers: head.headers,
        text: String::from_utf8(body.to_vec()).unwrap(),
    }
}

pub async fn text(app: &Router, uri: &str) -> (StatusCode, String) {
    let answer = send(app, "GET", uri, &[], "").await;
    (answer.status, answer.text)
}

pub async fn ask(app: &Router, uri: &str) -> (StatusCode, Value) {
    let answer = send(app, "GET", uri, &[], "").await;
    (answer.status, answer.json())
}

/// Sends a GET, and returns the JSON of the answer, whose status must be 200. Asks again if the store was too slow, as
/// happens on a busy machine.
pub async fn json(app: &Router, uri: &str) -> Value {
    look_until(PATIENCE, async || match ask(app, uri).await {
        (StatusCode::OK, answer) => Ok(answer),
        (status, answer) => {
            let answer = format!("{uri}: {status} {answer}");
            let is_timeout = answer.contains("no answer within the response timeout");
            assert!(is_timeout, "{answer}");
            Err(answer)
        }
    })
    .await
}
