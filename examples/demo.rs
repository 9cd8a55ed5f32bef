//! A small shop to try the crate with: `cargo run --release --example demo`.
//!
//! It generates its own traffic, so that the dashboard is never empty. Its environment:
//!
//! | Variable | Meaning | Default |
//! |---|---|---|
//! | `LISTEN` | address and port | `127.0.0.1:3000` |
//! | `REDIS_URL` | where to keep everything | absent: in memory |
//! | `PULSE_PREFIX` | what every key begins with; empty is the book's bare layout | `pulse:` |
//! | `PULSE_TOKEN` | bearer token (or password) of the admin router | absent: open, on loopback only |
//! | `PULSE_FLUSH_MS` | milliseconds between flushes, 10 to 60,000 | 1000 |
//! | `PULSE_CLEAN_SECS` | seconds between cleaning passes, 1 to 3,600 | 60 |
//! | `PULSE_FOLD_STEP` | contexts that a step of folding covers, for the fault tests | as the server's time allows |
//! | `DEMO_TRAFFIC` | `off`: no traffic of its own | on |
//! | `DEMO_LAYER` | `off`: the same routes without the layer, for comparisons | on |
#![allow(clippy::print_stdout)] // An example talks to whoever started it.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream::{self, Stream};
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;

/// Time for open requests to end after a signal.
const GRACE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    log_boom_once();
    let listen = "an IP address and a port, as 127.0.0.1:3000";
    let listen = parsed("LISTEN", listen)?.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 3000)));
    let token = variable("PULSE_TOKEN")?.filter(|token| !token.is_empty());
    if token.is_none() && !listen.ip().is_loopback() {
        return Err(format!(
            "LISTEN={listen} is open to others: set PULSE_TOKEN, or listen on a loopback address"
        )
        .into());
    }
    let access = token.map_or_else(Access::open, Access::token);
    // Like `mount`, but returns an error instead of panicking.
    let pulse = pulse()?;
    let admin = pulse
        .try_mount("/admin/pulse", access)
        .map_err(|error| format!("PULSE_TOKEN: {error}"))?;

    let mut app = shop(pulse.clone());
    if variable("DEMO_LAYER")?.as_deref() != Some("off") {
        app = app.layer(pulse.layer());
    }
    let (end, ended) = watch::channel(false);
    let app = app
        .layer(middleware::from_fn_with_state(
            ended.clone(),
            cut_at_the_end,
        ))
        .merge(admin);

    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| format!("LISTEN={listen}: {error}"))?;
    let address = listener.local_addr()?;
    println!("the shop       http://{address}/");
    println!("the dashboard  http://{address}/admin/pulse");
    if variable("DEMO_TRAFFIC")?.as_deref() != Some("off") {
        tokio::spawn(traffic(address));
    }

    let (stop, mut stopped) = watch::channel(false);
    let serving = axum::serve(listener, app).with_graceful_shutdown(async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    });
    let mut serving = tokio::spawn(serving.into_future());
    tokio::select! {
        result = &mut serving => result??,
        () = signal() => {}
    }
    // Stops accepting connections. Open requests have a second to end, then they are cut.
    stop.send_replace(true);
    if tokio::time::timeout(GRACE, &mut serving).await.is_err() {
        end.send_replace(true);
        serving.abort();
        // Requests that are cut are recorded when they are dropped.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    pulse.shutdown().await?;
    Ok(())
}

/// Builds the pulse from the environment.
fn pulse() -> Result<Pulse, Box<dyn Error>> {
    // With the second of grace before it, the process ends within two seconds.
    let mut builder = Pulse::builder().shutdown_timeout(Duration::from_millis(700));
    if let Some(url) = variable("REDIS_URL")?.filter(|url| !url.is_empty()) {
        builder = builder.redis(url);
    }
    if let Some(prefix) = variable("PULSE_PREFIX")? {
        builder = builder.prefix(prefix);
    }
    if let Some(millis) = parsed("PULSE_FLUSH_MS", "milliseconds, 10 to 60000")? {
        builder = builder.flush_interval(Duration::from_millis(millis));
    }
    if let Some(seconds) = parsed("PULSE_CLEAN_SECS", "seconds, 1 to 3600")? {
        builder = builder.clean_interval(Duration::from_secs(seconds));
    }
    if let Some(contexts) = parsed("PULSE_FOLD_STEP", "a number of contexts")? {
        builder = builder.fold_step_contexts(contexts);
    }
    Ok(builder.build()?)
}

fn variable(name: &str) -> Result<Option<String>, String> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// The value of a variable, if it is set. The builder refuses values out of range.
fn parsed<T: FromStr>(name: &str, allowed: &str) -> Result<Option<T>, String> {
    let value = variable(name)?.filter(|value| !value.is_empty());
    let parsed = value.map(|value| {
        let parsed = value.trim().parse();
        parsed.map_err(|_| format!("{name}={value:?}: must be {allowed}"))
    });
    parsed.transpose()
}

/// Waits for Ctrl-C, or SIGTERM, which operators' tools send.
async fn signal() {
    let interrupt = async {
        // Without a handler the process ends by the signal itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<Option<()>>();
    tokio::select! {
        () = interrupt => {}
        _ = terminate => {}
    }
}

/// Drops open requests when the grace period is over.
async fn cut_at_the_end(
    State(mut ended): State<watch::Receiver<bool>>,
    request: Request,
    next: Next,
) -> Response {
    tokio::select! {
        biased;
        response = next.run(request) => response,
        _ = ended.wait_for(|ended| *ended) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// The routes.
fn shop(pulse: Pulse) -> Router {
    let users = Router::new().route("/users/{id}", get(user));
    Router::new()
        .route("/", get(home))
        .route("/ping", get(|| async { "pong" }))
        .route("/products/{id}", get(product))
        .route("/search", get(search))
        .route("/checkout", post(checkout))
        .route("/reports/daily", get(report))
        .route("/stream", get(events))
        .route("/boom", get(boom))
        .nest("/api/v1", users)
        .with_state(pulse)
}

/// Simulates work for about `millis`, and now and then for much longer.
async fn work(millis: f64) {
    let millis = millis * (0.6 + 0.8 * fastrand::f64());
    let tail = if fastrand::f64() < 0.02 { 6.0 } else { 1.0 };
    tokio::time::sleep(Duration::from_secs_f64(millis * tail / 1e3)).await;
}

async fn home() -> Html<&'static str> {
    work(4.0).await;
    Html(
        "<!doctype html><title>The shop</title><h1>The shop</h1><p><a href=\"/admin/pulse\">What it is doing</a>",
    )
}

async fn product(State(pulse): State<Pulse>, Path(id): Path<u32>) -> String {
    pulse.time("db:find_product", work(6.0)).await;
    format!("product {id}")
}

async fn search(State(pulse): State<Pulse>) -> &'static str {
    pulse.time("db:search", work(25.0)).await;
    pulse.time("template:results", work(3.0)).await;
    "nothing found"
}

async fn checkout(State(pulse): State<Pulse>) -> StatusCode {
    pulse.time("payment", work(60.0)).await;
    if fastrand::f64() < 0.05 {
        return StatusCode::BAD_GATEWAY;
    }
    pulse.counter("sales").add(fastrand::i64(1..=4));
    StatusCode::CREATED
}

async fn report(State(pulse): State<Pulse>) -> &'static str {
    pulse.time("db:report", work(450.0)).await;
    "all is well"
}

async fn user(Path(id): Path<u32>) -> Response {
    work(2.0).await;
    if id % 50 == 0 {
        return StatusCode::NOT_FOUND.into_response();
    }
    format!("user {id}").into_response()
}

async fn events() -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    Sse::new(stream::unfold(0u32, |n| async move {
        if n > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Some((Ok(Event::default().data(n.to_string())), n + 1))
    }))
}

/// The message of the panic of `/boom`.
struct Boom;

async fn boom() -> &'static str {
    std::panic::panic_any(Boom)
}

/// The dashboard counts the panics of `/boom`, so the log shows one line for all of them instead of a
/// backtrace for each. Other panics are logged as usual.
fn log_boom_once() {
    static LOGGED: std::sync::Once = std::sync::Once::new();
    let log = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().is::<Boom>() {
            return log(panic);
        }
        LOGGED.call_once(|| {
            tracing::info!(
                "GET /boom panics on purpose: the dashboard counts each panic, this line comes once"
            );
        });
    }));
}

/// Traffic from eight visitors, in waves.
async fn traffic(address: SocketAddr) {
    for visitor in 0..8u32 {
        tokio::spawn(async move {
            let start = tokio::time::Instant::now();
            loop {
                let _ = visit(address).await;
                let wave = 1.5 + (start.elapsed().as_secs_f64() / 20.0 + f64::from(visitor)).sin();
                tokio::time::sleep(Duration::from_secs_f64(0.12 * wave * fastrand::f64())).await;
            }
        });
    }
}

/// Sends a request on a connection of its own.
async fn visit(address: SocketAddr) -> std::io::Result<()> {
    let id = fastrand::u32(1..500);
    let (method, path) = match fastrand::u32(0..1_000) {
        0..=249 => ("GET", "/".to_owned()),
        250..=549 => ("GET", format!("/products/{id}")),
        550..=699 => ("GET", format!("/api/v1/users/{id}")),
        700..=819 => ("GET", "/search?q=shoes".to_owned()),
        820..=919 => ("POST", "/checkout".to_owned()),
        920..=949 => ("GET", "/reports/daily".to_owned()),
        950..=979 => ("GET", "/ping".to_owned()),
        980..=984 => ("GET", "/stream".to_owned()),
        985..=997 => ("GET", format!("/no/such/page/{id}")),
        _ => ("GET", "/boom".to_owned()),
    };
    let mut connection = TcpStream::connect(address).await?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let reading = connection.read_to_end(&mut answer);
    // Streams do not end.
    let _ = tokio::time::timeout(Duration::from_secs(5), reading).await;
    Ok(())
}
