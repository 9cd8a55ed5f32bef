//! The admin router over real HTTP: access, posts, and the size of answers.

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

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}
