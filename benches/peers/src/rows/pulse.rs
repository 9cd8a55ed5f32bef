//! tower-pulse as in a service, with a flush per second. While instructions are counted, the flush interval is a
//! minute, so that flushes are rarely counted.

use std::time::Duration;

use axum::Router;
use http::StatusCode;
use tower_pulse::Pulse;

use super::App;
use crate::driver::{ROUTES, Runtimes};

fn pulse(runtimes: &Runtimes) -> Result<Pulse, String> {
    let _inside = runtimes.background().enter();
    let builder = Pulse::builder().flush_interval(runtimes.flush_interval());
    let pulse = builder.build();
    let pulse = pulse.map_err(|error| error.to_string())?;
    record_slow_requests(&pulse);
    Ok(pulse)
}

/// Fills the hour's lists of the slowest requests, so that no measured request enters a list. In a service, few
/// requests of an hour enter a list.
fn record_slow_requests(pulse: &Pulse) {
    for context in (0..ROUTES).map(|route| format!("GET /route{route}/{{id}}")) {
        for _ in 0..20 {
            pulse.record(&context, Duration::from_secs(3_600), StatusCode::OK);
        }
    }
}

pub(super) fn to_head(routes: Router, runtimes: &Runtimes) -> Result<App, String> {
    let pulse = pulse(runtimes)?;
    Ok(App::keeping(routes.layer(pulse.layer()), pulse))
}

pub(super) fn until_body_end(routes: Router, runtimes: &Runtimes) -> Result<App, String> {
    let pulse = pulse(runtimes)?;
    Ok(App::keeping(
        routes.layer(pulse.layer().until_body_end()),
        pulse,
    ))
}
