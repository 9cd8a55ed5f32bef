//! The admin router over real HTTP.

mod access;
mod answer_size;
mod first_hour;
mod guide;
mod hosts;
mod names;
mod nested;
mod posts;
mod refused;
mod rules;
mod unreadable;

use std::net::SocketAddr;

use axum::Router;
use tokio::net::TcpListener;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;

use crate::rig::http::Client;

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// A client of an admin router that is served alone, at `/pulse`.
async fn client_of(pulse: &Pulse, access: Access) -> Client {
    let app = Router::new().merge(pulse.mount("/pulse", access));
    Client::connect(serve(app).await).await
}
