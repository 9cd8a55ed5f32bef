//! A reverse proxy in front of the dashboard. The proxy strips a prefix, alters the answers to questions, or forwards
//! the questions to another service.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, TRANSFER_ENCODING};
use axum::response::Response;
use serde_json::Value;

use crate::rig::http::Client;
use crate::service::Serving;

/// Makes an altered body from the names of the questions, such as `paths`, and the body of the answer.
type Alteration = Arc<dyn Fn(&[&str], &str) -> String + Send + Sync>;

/// A running proxy. Dropping it closes its port.
pub struct ReverseProxy {
    serving: Serving,
    state: Arc<State>,
}

struct State {
    prefix: &'static str,
    /// The server of the dashboard's files.
    upstream: SocketAddr,
    /// The server of the API.
    api: SocketAddr,
    alteration: Mutex<Option<Alteration>>,
}

impl ReverseProxy {
    /// Serves everything from one upstream.
    pub async fn start(upstream: SocketAddr) -> Self {
        Self::between("", upstream, upstream).await
    }

    /// Serves `PREFIX/…` from `/…` of an upstream, and the API from another upstream.
    pub async fn between(prefix: &'static str, upstream: SocketAddr, api: SocketAddr) -> Self {
        let state = Arc::new(State {
            prefix,
            upstream,
            api,
            alteration: Mutex::default(),
        });
        let shared = state.clone();
        let app = Router::new().fallback(move |request: Request| forward(shared.clone(), request));
        let serving = Serving::start(app).await;
        Self { serving, state }
    }

    /// Alters all answers to the dashboard's questions from now on. `alteration` makes the new body from the names of
    /// the questions and the true body.
    pub fn alter(&self, alteration: impl Fn(&[&str], &str) -> String + Send + Sync + 'static) {
        self.set(Some(Arc::new(alteration)));
    }

    /// From now on, alters the list of answers to each request, given the names of the questions.
    pub fn alter_answers(
        &self,
        alteration: impl Fn(&[&str], &mut [Value]) + Send + Sync + 'static,
    ) {
        self.alter(move |questions, body| {
            let mut all: Value = serde_json::from_str(body).expect("the service answers JSON");
            let answers = all["answers"].as_array_mut().expect("a list");
            alteration(questions, answers);
            all.to_string()
        });
    }

    /// From now on, alters the body of each answer to `question`.
    pub fn alter_each(
        &self,
        question: &'static str,
        change: impl Fn(&mut Value) + Send + Sync + 'static,
    ) {
        self.alter_answers(move |questions, answers| {
            for (answer, asked) in answers.iter_mut().zip(questions) {
                if *asked == question {
                    change(&mut answer["body"]);
                }
            }
        });
    }

    /// Stops altering answers.
    pub fn heal(&self) {
        self.set(None);
    }

    fn set(&self, alteration: Option<Alteration>) {
        let state = self.state.alteration.lock();
        *state.unwrap_or_else(PoisonError::into_inner) = alteration;
    }

    /// The URL of the dashboard, with this fragment.
    pub fn screen(&self, fragment: &str) -> String {
        self.url(&format!("/admin/pulse#{fragment}"))
    }

    /// The URL of a path of the upstream.
    pub fn url(&self, path: &str) -> String {
        self.serving.url(&format!("{}{path}", self.state.prefix))
    }
}

async fn forward(state: Arc<State>, request: Request) -> Response {
    let path = request.uri().to_string();
    let Some(path) = path.strip_prefix(state.prefix) else {
        return Response::builder().status(404).body(Body::empty()).unwrap();
    };
    let upstream = match path.contains("/api/") {
        true => state.api,
        false => state.upstream,
    };
    let alteration = state.alteration.lock();
    let alteration = alteration.unwrap_or_else(PoisonError::into_inner).clone();
    let alteration = alteration.filter(|_| request.uri().path().ends_with("/api/screen"));
    // If answers are altered, this header is not forwarded: the answer could be a 304, which has no body to alter.
    let etag = request.headers().get("if-none-match");
    let etag = etag.filter(|_| alteration.is_none());
    let etag = etag.and_then(|etag| Some(("if-none-match", etag.to_str().ok()?)));
    let headers: Vec<_> = etag.into_iter().collect();
    let mut client = Client::connect(upstream).await;
    let method = request.method().as_str();
    let answer = client.request(method, path, &headers, "").await;
    let mut response = Response::builder().status(answer.status);
    let body = alteration.map(|alteration| alteration(&questions(path), &answer.text()));
    let mut replaced = vec![CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];
    if let Some(body) = &body {
        replaced.extend([ETAG, CONTENT_TYPE]);
        let is_page = body.starts_with('<');
        let content_type = ["application/json", "text/html"][usize::from(is_page)];
        response = response.header(CONTENT_TYPE, content_type);
    }
    for (name, value) in &answer.headers {
        if !replaced.iter().any(|header| header.as_str() == name) {
            response = response.header(name, value);
        }
    }
    let body = body.map_or(Body::from(answer.body), Body::from);
    response.body(body).expect("headers of an answer")
}

/// The names of the questions in a query such as `ask=paths%3Fwindow%3D1h&ask=marks`.
fn questions(path: &str) -> Vec<&str> {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let asked = query.split('&').filter_map(|ask| ask.strip_prefix("ask="));
    asked
        .map(|question| question.split('%').next().unwrap_or_default())
        .collect()
}
