//! tower-pulse, as a service would use it: with all features, flushed once a second.

use axum::Router;
use tower_pulse::Pulse;

use super::App;
use crate::driver::Ground;

fn pulse(ground: &Ground) -> Result<Pulse, String> {
    let _inside = ground.back().enter();
    Pulse::builder().build().map_err(|error| error.to_string())
}

/// Timed to the head of the response.
pub(super) fn to_head(routes: Router, ground: &Ground) -> Result<App, String> {
    let pulse = pulse(ground)?;
    Ok(App::keeping(routes.layer(pulse.layer()), pulse))
}

/// Timed to the end of the response's body.
pub(super) fn until_body_end(routes: Router, ground: &Ground) -> Result<App, String> {
    let pulse = pulse(ground)?;
    Ok(App::keeping(
        routes.layer(pulse.layer().until_body_end()),
        pulse,
    ))
}
