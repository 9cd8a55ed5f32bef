//! The demo's own visitors.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use fastrand::Rng;
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::catalogue::{Visit, draw_visits};
use crate::fleet::INSTANCES;
use crate::incident::Incident;
use crate::pace::Pace;
use crate::settings::QUEUE_HEADER;

#[derive(Clone, Debug)]
pub(crate) enum Destination {
    Http(SocketAddr),
    /// An instance of this process that has no server of its own.
    InProcess(Router, Pace),
}

impl Destination {
    /// Sends a request that arrives at `now`, in Unix microseconds, and waits until it has ended.
    pub(crate) async fn visit(&self, visit: Visit, now: i64) {
        let header = visit.queue_header(now);
        match self {
            // A failed visit is ignored.
            Self::Http(address) => drop(send(*address, &visit, header).await),
            Self::InProcess(app, pace) => {
                let request = Request::builder().method(visit.method).uri(visit.path);
                let mut request = request.header("traceparent", trace_parent());
                if let Some(header) = header {
                    request = request.header(QUEUE_HEADER, header);
                }
                let request = request.body(Body::empty());
                let response = app.clone().oneshot(request.expect("a path of the shop"));
                drop(pace.drive(response).await);
            }
        }
    }
}

/// Sends one instance of a fleet the requests that [`draw_visits`] draws, until `stopped`. Returns when the last
/// request has ended.
pub(crate) async fn visit_instance(
    destination: Destination,
    incident: Option<Incident>,
    mut stopped: watch::Receiver<bool>,
) {
    let (mut rng, mut visitors) = (Rng::new(), JoinSet::new());
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = second.tick() => {}
            _ = stopped.wait_for(|stopped| *stopped) => break,
        }
        for (wait, visit) in draw_visits(&mut rng, incident, INSTANCES) {
            let destination = destination.clone();
            visitors.spawn(async move {
                tokio::time::sleep(wait).await;
                destination.visit(visit, now_micros()).await;
            });
        }
        while visitors.try_join_next().is_some() {}
    }
    visitors.join_all().await;
}

/// Sends requests from eight visitors, in waves.
pub(crate) fn visit_in_waves(address: SocketAddr) {
    for visitor in 0..8u32 {
        tokio::spawn(async move {
            let start = tokio::time::Instant::now();
            loop {
                let _ = send(address, &any_visit(), None).await;
                let wave = 1.5 + (start.elapsed().as_secs_f64() / 20.0 + f64::from(visitor)).sin();
                tokio::time::sleep(Duration::from_secs_f64(0.12 * wave * fastrand::f64())).await;
            }
        });
    }
}

fn any_visit() -> Visit {
    let id = fastrand::u32(1..500);
    let (method, path) = match fastrand::u32(0..1_000) {
        0..=249 => ("GET", "/".to_owned()),
        250..=549 => ("GET", format!("/products/{id}")),
        550..=639 => ("GET", format!("/api/v1/users/{id}")),
        640..=669 => ("GET", "/cart".to_owned()),
        670..=699 => ("POST", "/cart/items".to_owned()),
        700..=819 => ("GET", "/search?q=shoes".to_owned()),
        820..=919 => ("POST", "/checkout".to_owned()),
        920..=949 => ("GET", "/reports/daily".to_owned()),
        950..=979 => ("GET", "/ping".to_owned()),
        980..=984 => ("GET", "/stream".to_owned()),
        985..=997 => ("GET", format!("/no/such/page/{id}")),
        _ => ("GET", "/boom".to_owned()),
    };
    Visit {
        method,
        path,
        queued: None,
    }
}

fn now_micros() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

/// The header `traceparent` of a new trace. The ids come from the thread's generator instead of the visitors',
/// so that the simulated past draws the same visits each time.
fn trace_parent() -> String {
    let (trace, span) = (fastrand::u128(1..), fastrand::u64(1..));
    format!("00-{trace:032x}-{span:016x}-01")
}

async fn send(address: SocketAddr, visit: &Visit, header: Option<String>) -> std::io::Result<()> {
    let Visit { method, path, .. } = visit;
    let header = header.map_or_else(String::new, |header| {
        format!("{QUEUE_HEADER}: {header}\r\n")
    });
    let mut connection = TcpStream::connect(address).await?;
    let trace_parent = trace_parent();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ntraceparent: {trace_parent}\r\nconnection: close\r\n\
         {header}content-length: 0\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let reading = connection.read_to_end(&mut answer);
    // The response of `/stream` does not end by itself.
    let _ = tokio::time::timeout(Duration::from_secs(5), reading).await;
    Ok(())
}
