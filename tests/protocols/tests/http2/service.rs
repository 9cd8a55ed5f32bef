//! A service on a free port, and a connection to it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tower_pulse::{Outcome, Pulse};

pub(crate) const LARGE: usize = 8 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;
/// The most unread bytes of a stream: fewer than a large body has.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// The most unread bytes of all streams of a connection together.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

pub(crate) struct Service {
    pub(crate) pulse: Pulse,
    /// Whether requests are timed to the end of the response's body, instead of the response's head.
    is_timed_to_body_end: bool,
    address: SocketAddr,
    /// Requests to `/wait` wait for a permit.
    pub(crate) gate: Arc<Semaphore>,
    shutdown: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Service {
    /// Runs a test twice, once with requests timed to the response's head, once to the end of the response's body.
    pub(crate) async fn each(test: impl AsyncFn(&mut Self, Connection)) {
        for is_timed_to_body_end in [false, true] {
            let mut service = Self::start(is_timed_to_body_end).await;
            let connection = service.connect().await;
            test(&mut service, connection).await;
        }
    }

    /// The number of requests in flight while the server sends `bodies` bodies.
    pub(crate) fn in_flight_bodies(&self, bodies: i64) -> i64 {
        bodies * i64::from(self.is_timed_to_body_end)
    }

    /// The outcome of a response whose body is cut off.
    pub(crate) fn outcome_if_cut_off(&self) -> Outcome {
        match self.is_timed_to_body_end {
            true => Outcome::BodyAborted,
            false => Outcome::Success,
        }
    }

    async fn start(is_timed_to_body_end: bool) -> Self {
        let (pulse, gate) = (crate::counting::pulse(), Arc::new(Semaphore::new(0)));
        let app = Router::new()
            .route("/users/{id}", get(|| async { "a user" }))
            .route("/wait/{id}", get(wait))
            .route("/panic", get(panic))
            .route("/large", get(large))
            .route("/endless", get(endless))
            .route("/half", get(half))
            .route("/trailers", get(trailers))
            .route("/upload", post(upload));
        let app = match is_timed_to_body_end {
            false => app.layer(pulse.layer()),
            true => app.layer(pulse.layer().until_body_end()),
        };
        let app = app.with_state(gate.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the listener is bound");
        let (shutdown, shutdown_begins) = oneshot::channel::<()>();
        let serve = axum::serve(listener, app).with_graceful_shutdown(async {
            let _ = shutdown_begins.await;
        });
        let server = tokio::spawn(async { serve.await.expect("the service runs") });
        Self {
            pulse,
            is_timed_to_body_end,
            address,
            gate,
            shutdown: Some(shutdown),
            server,
        }
    }

    async fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address)
            .await
            .expect("the server listens");
        // The unread bytes of one stream must not block the other streams.
        let builder = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(stream);
        let (send, connection) = builder.await.expect("HTTP/2");
        Connection {
            send,
            task: tokio::spawn(connection),
        }
    }

    /// Begins to shut down: each connection gets GOAWAY, and the server finishes the requests in flight.
    pub(crate) fn shut_down(&mut self) {
        drop(self.shutdown.take());
    }

    pub(crate) async fn ended(&mut self) {
        (&mut self.server).await.expect("the server does not panic");
    }
}

/// A connection whose streams the test opens.
pub(crate) struct Connection {
    pub(crate) send: SendRequest<Bytes>,
    pub(crate) task: JoinHandle<Result<(), h2::Error>>,
}

/// A stream: its response, and the sender of its request's body.
pub(crate) type Stream = (h2::client::ResponseFuture, SendStream<Bytes>);

impl Connection {
    pub(crate) async fn open(&mut self, method: &str, path: &str) -> Stream {
        self.begin(method, path, true).await
    }

    pub(crate) async fn open_waiting(&mut self, streams: usize) -> Vec<Stream> {
        let mut waiting = Vec::new();
        for number in 0..streams {
            waiting.push(self.open("GET", &format!("/wait/{number}")).await);
        }
        waiting
    }

    /// Sends a GET. Returns the body of the answer, and the sender of the request's body.
    pub(crate) async fn body(&mut self, path: &str) -> (RecvStream, SendStream<Bytes>) {
        let (response, sending) = self.open("GET", path).await;
        (response.await.expect("a head").into_body(), sending)
    }

    /// Sends the head of a request. The body must follow, unless `is_end` is true.
    pub(crate) async fn begin(&mut self, method: &str, path: &str, is_end: bool) -> Stream {
        let request = Request::builder().method(method);
        let request = request.uri(format!("http://localhost{path}")).body(());
        let ready = self.send.clone().ready().await;
        self.send = ready.expect("the connection takes a stream");
        let request = request.expect("a request");
        self.send.send_request(request, is_end).expect("a stream")
    }

    /// Closes the connection at once, with all of its streams.
    pub(crate) fn cut(self) {
        self.task.abort();
    }
}

/// Reads a body to its end. Returns the number of its bytes, and its trailers.
pub(crate) async fn read_all(
    mut body: RecvStream,
) -> Result<(usize, Option<HeaderMap>), h2::Error> {
    let mut bytes = 0;
    while let Some(chunk) = body.data().await {
        let length = chunk?.len();
        bytes += length;
        body.flow_control().release_capacity(length)?;
    }
    Ok((bytes, body.trailers().await?))
}

async fn wait(State(gate): State<Arc<Semaphore>>) -> &'static str {
    gate.acquire().await.expect("the gate stays open").forget();
    "waited"
}

async fn panic() -> &'static str {
    panic!("a handler of the test panics")
}

/// Never answers if the body is cut off. Then only the end of the stream ends the request.
async fn upload(body: Body) -> String {
    match body.collect().await {
        Ok(body) => body.to_bytes().len().to_string(),
        Err(_) => std::future::pending().await,
    }
}

async fn large() -> Body {
    let chunks = std::iter::repeat_n(Bytes::from(vec![7; CHUNK]), LARGE / CHUNK);
    Body::from_stream(tokio_stream::iter(chunks).map(Ok::<_, Infallible>))
}

/// A body that continues as long as the client reads it.
async fn endless() -> Body {
    let (send, chunks) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        while send
            .send(Ok::<_, Infallible>(Bytes::from_static(&[7; 1_024])))
            .await
            .is_ok()
        {}
    });
    Body::from_stream(ReceiverStream::new(chunks))
}

/// A body that fails after its first bytes.
async fn half() -> Body {
    let chunks = [
        Ok(Bytes::from_static(b"half")),
        Err(std::io::Error::other("lost")),
    ];
    Body::from_stream(tokio_stream::iter(chunks))
}

async fn trailers() -> Response {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", http::HeaderValue::from_static("7"));
    let frames = [
        Frame::data(Bytes::from_static(b"data")),
        Frame::trailers(trailers),
    ];
    let frames = tokio_stream::iter(frames).map(Ok::<_, Infallible>);
    Response::new(Body::new(StreamBody::new(frames)))
}
