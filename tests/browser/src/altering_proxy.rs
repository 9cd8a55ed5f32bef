//! A reverse proxy that can alter the answers to the page's questions, or have them answered by another service than the
//! one that serves the page, as while two versions of a service stand behind one load balancer.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderName;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, TRANSFER_ENCODING};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::rig::http::Client;

/// Makes another body of that of an answer, given the names of the questions, such as `paths`.
type Alteration = Arc<dyn Fn(&[&str], &str) -> String + Send + Sync>;

/// A running proxy. Dropping it closes its port.
#[derive(Debug)]
pub struct AlteringProxy {
    address: SocketAddr,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

struct State {
    /// Where the page and its files come from.
    upstream: SocketAddr,
    /// Where the API is asked.
    api: SocketAddr,
    alteration: Mutex<Option<Alteration>>,
    altered: AtomicUsize,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl AlteringProxy {
    /// Serves what an upstream serves.
    pub async fn start(upstream: SocketAddr) -> Self {
        Self::between(upstream, upstream).await
    }

    /// Serves the page of an upstream, and the API of another one.
    pub async fn between(upstream: SocketAddr, api: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("bind the proxy");
        let address = listener.local_addr().expect("the proxy's address");
        let state = Arc::new(State {
            upstream,
            api,
            alteration: Mutex::default(),
            altered: AtomicUsize::new(0),
        });
        let shared = state.clone();
        let app = Router::new().fallback(move |request: Request| forward(shared.clone(), request));
        let serving = tokio::spawn(async move {
            // It is aborted in the end.
            let _ = axum::serve(listener, app).await;
        });
        Self {
            address,
            state,
            serving,
        }
    }

    /// Alters all answers to the page's questions from now on. `alteration` makes a body of the names of the questions and
    /// of the true body.
    pub fn alter(&self, alteration: impl Fn(&[&str], &str) -> String + Send + Sync + 'static) {
        *self.state.alteration() = Some(Arc::new(alteration));
    }

    /// Alters no more answers.
    pub fn heal(&self) {
        *self.state.alteration() = None;
    }

    /// How many answers were altered.
    pub fn altered(&self) -> usize {
        self.state.altered.load(Ordering::SeqCst)
    }

    /// The URL of the page, with its state.
    pub fn screen(&self, fragment: &str) -> String {
        format!("http://{}/admin/pulse#{fragment}", self.address)
    }
}

impl Drop for AlteringProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl State {
    fn alteration(&self) -> MutexGuard<'_, Option<Alteration>> {
        self.alteration
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

async fn forward(state: Arc<State>, request: Request) -> Response {
    let path = request.uri().to_string();
    let is_question = request.uri().path().ends_with("/api/screen");
    let alteration = state.alteration().clone().filter(|_| is_question);
    // What the page knows already would be answered without a body.
    let known = request.headers().get("if-none-match");
    let known = known.filter(|_| alteration.is_none());
    let known = known.and_then(|etag| etag.to_str().ok());
    let headers: Vec<_> = known
        .map(|etag| ("if-none-match", etag))
        .into_iter()
        .collect();
    let upstream = match request.uri().path().contains("/api/") {
        true => state.api,
        false => state.upstream,
    };
    let mut client = Client::connect(upstream).await;
    let method = request.method().as_str();
    let answer = client.request(method, &path, &headers, "").await;
    let mut response = Response::builder().status(answer.status);
    let changed = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];
    for (name, value) in &answer.headers {
        let is_it = |header: &HeaderName| header.as_str() == name;
        let is_replaced = alteration.is_some() && [ETAG, CONTENT_TYPE].iter().any(is_it);
        if !is_replaced && !changed.iter().any(is_it) {
            response = response.header(name, value);
        }
    }
    let Some(alteration) = alteration else {
        return response
            .body(Body::from(answer.body))
            .expect("headers of an answer");
    };
    let body = alteration(&questions(&path), &answer.text());
    let content_type = match body.starts_with('<') {
        true => "text/html",
        false => "application/json",
    };
    state.altered.fetch_add(1, Ordering::SeqCst);
    response
        .header(CONTENT_TYPE, content_type)
        .body(Body::from(body))
        .expect("headers of an answer")
}

/// The names of the questions in a query such as `ask=paths%3Fwindow%3D1h&ask=marks`.
fn questions(path: &str) -> Vec<&str> {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let asked = query.split('&').filter_map(|one| one.strip_prefix("ask="));
    asked
        .map(|one| one.split('%').next().unwrap_or_default())
        .collect()
}
