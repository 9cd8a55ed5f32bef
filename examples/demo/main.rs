//! A small shop to try the crate with: `cargo run --release --example demo`.
//!
//! The demo generates its own traffic, so the dashboard is never empty. Environment variables configure the demo:
//!
//! | Variable | Meaning | Default |
//! |---|---|---|
//! | `LISTEN` | address and port | `127.0.0.1:3000` |
//! | `REDIS_URL` | the Redis that keeps everything, also special offers in a row cache | absent: in memory, no offers |
//! | `REDIS_CLUSTER` | nodes of the Redis Cluster that keeps everything: `url,url` | absent |
//! | `REDIS_SENTINEL` | the name of the primary that keeps everything, and Sentinels: `service@url,url` | absent |
//! | `PULSE_FILE` | the file that keeps everything | absent: in memory |
//! | `PULSE_PREFIX` | the prefix of every key; may be empty, as in the book *Redis in Action* | `pulse:`, in a cluster `{pulse}:` |
//! | `PULSE_TOKEN` | bearer token (or password) of the admin router | absent: open, on loopback only |
//! | `PULSE_FLUSH_MS` | milliseconds between flushes, 10 to 60,000 | 1000 |
//! | `PULSE_CLEAN_SECS` | seconds between cleaning passes, 1 to 3,600 | 60 |
//! | `PULSE_HISTORY_DAYS` | days of history, 15 to 400 | none |
//! | `PULSE_FOLD_STEP` | contexts in a step of folding, for the fault tests | as many as the store writes quickly |
//! | `DEMO_HISTORY` | the length of the simulated past of four instances, `30m` to `24h` | absent: none |
//! | `DEMO_INCIDENT` | a problem in a fleet of four: `slow_query`, `bad_deploy`, `bad_instance`, `errors`, `surge`, `busy_host`, `queue`, `repeated` or `blocking`. The incident begins eight minutes before the end of the past or, without a past, at the start | absent: none |
//! | `DEMO_SQLITE` | `on`: real statements on a SQLite in memory; needs `--features sqlite`; not with a past or an incident | off |
//! | `DEMO_TRAFFIC` | `off`: no live traffic | on |
//! | `DEMO_LAYER` | `off`: the same routes without the layer, for comparisons | on |
//!
//! Read this file, then `settings`, `server` (the Redis), `catalogue` (the shop's pages), `shop` (its routes),
//! `pace` (the time of its work), `incident` (its problems), `database` (its SQLite), `offers` (its row cache),
//! `traffic` (its visitors), `fleet` (its instances) and `history` (its past).
#![allow(clippy::print_stdout)] // An example prints to its terminal.

mod catalogue;
mod database;
mod fleet;
mod history;
mod incident;
mod offers;
mod pace;
mod server;
mod settings;
mod shop;
mod traffic;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower_pulse::BuildError;
use tower_pulse::tracing::SpanTimers;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

use crate::fleet::{Backend, Instance};
use crate::pace::Pace;
use crate::settings::Settings;
use crate::traffic::Destination;
use pulse_examples::listen::check_address;
use pulse_examples::signal::shutdown_signal;

/// The time for open requests to end after a signal.
const GRACE: Duration = Duration::from_secs(1);

const END_OF_PAST: &str = "simulated traffic until here";

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
    let timers = SpanTimers::new();
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(timers.layer())
        .with(log.with_filter(LevelFilter::INFO))
        .init();
    shop::install_boom_hook();
    let settings = Settings::from_env()?;
    let instances = match settings.is_fleet() {
        true => start_fleet(&settings).await?,
        false => vec![fleet::single(&settings, &timers).await?],
    };
    let first = &instances[0];
    // Like `mount`, but returns an error instead of panicking.
    let admin = first
        .pulse
        .try_mount("/admin/pulse", settings.access.clone())
        .map_err(|error| format!("PULSE_TOKEN: {error}"))?;
    let (end, ended) = watch::channel(false);
    let app = first
        .app
        .clone()
        .layer(middleware::from_fn_with_state(ended, cut_at_the_end))
        .merge(admin);

    let listener = TcpListener::bind(settings.listen)
        .await
        .map_err(|error| format!("LISTEN={}: {error}", settings.listen))?;
    let address = listener.local_addr()?;
    println!("the shop       http://{address}/");
    println!("the dashboard  http://{address}/admin/pulse");
    let (stop, stopped) = watch::channel(false);
    let mut visitors = JoinSet::new();
    if settings.has_traffic && settings.is_fleet() {
        for (number, instance) in instances.iter().enumerate() {
            let destination = match number {
                0 => Destination::Http(address),
                _ => Destination::InProcess(instance.app.clone(), Pace::Real),
            };
            let visiting = traffic::visit_instance(destination, instance.incident, stopped.clone());
            visitors.spawn(visiting);
        }
    } else if settings.has_traffic {
        traffic::visit_in_waves(address);
    }

    let mut serving_until = stopped;
    let serving = axum::serve(listener, app).with_graceful_shutdown(async move {
        let _ = serving_until.wait_for(|stopped| *stopped).await;
    });
    let mut serving = tokio::spawn(serving.into_future());
    tokio::select! {
        result = &mut serving => result??,
        () = shutdown_signal() => {}
    }
    // Stops accepting connections. Open requests have a second to end before they are dropped.
    stop.send_replace(true);
    let ending = async {
        let _ = (&mut serving).await;
        while visitors.join_next().await.is_some() {}
    };
    if tokio::time::timeout(GRACE, ending).await.is_err() {
        end.send_replace(true);
        serving.abort();
        visitors.abort_all();
        // This leaves time to record the dropped requests as cancelled.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fleet::shut_down(&instances).await;
    Ok(())
}

/// Records the past of a fleet, if a past is configured, and starts the fleet.
async fn start_fleet(settings: &Settings) -> Result<Vec<Instance>, Box<dyn Error>> {
    // The demo reports an unusable address before it records the past, not after.
    check_address(settings.listen)
        .map_err(|error| format!("LISTEN={}: {error}", settings.listen))?;
    let begin = settings
        .history
        .map_or_else(fleet::now, history::first_second);
    let (backend, mut is_simulated) = (Backend::new(settings, begin)?, false);
    if let Some(length) = settings.history {
        match history::record(settings, &backend, length).await {
            Err(error) if error.is::<BuildError>() => return Err(error),
            Err(error) => tracing::warn!("the simulated past is left out, or ends early: {error}"),
            Ok(()) => is_simulated = true,
        }
    }
    let instances = fleet::live(settings, &backend)?;
    if is_simulated {
        instances[0].pulse.mark(END_OF_PAST).await?;
    } else if let Some(incident) = settings.incident {
        tracing::info!("the incident begins now: {}", incident.description());
    }
    Ok(instances)
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
