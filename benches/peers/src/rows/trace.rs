//! tower-http's TraceLayer as its documentation shows it, without a subscriber.

use axum::Router;
use tower_http::trace::TraceLayer;

use super::App;

pub(super) fn add(routes: Router) -> App {
    routes.layer(TraceLayer::new_for_http()).into()
}
