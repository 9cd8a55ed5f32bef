//! The admin router: a dashboard, a JSON API and Prometheus text, mounted in the service itself.
//!
//! [`Pulse::mount`](crate::Pulse::mount) creates the router for `Router::merge`, and
//! [`Pulse::router`](crate::Pulse::router) for `nest` and `nest_service`. Both need an [`Access`], which decides which
//! requests are answered; see the guide's page [access](crate::guide::access).
//!
//! The guide's page [the API](crate::guide::api) lists the endpoints below the mount point, with their parameters and
//! errors. The page [objects](crate::guide::objects) lists the fields of the answers. Each question reaches the store
//! at most once a second, however many dashboards are open. The admin router never records its own requests.
//!
//! If the service has a login, a layer of your own may decide who enters:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
//! use axum::{Router, extract::Request, middleware::{self, Next}, response::Response, routing::get};
//! use http::StatusCode;
//! use tower_pulse::{Pulse, admin::Access};
//!
//! async fn operators_only(request: Request, next: Next) -> Result<Response, StatusCode> {
//!     match request.headers().contains_key("x-operator") {
//!         true => Ok(next.run(request).await),
//!         false => Err(StatusCode::UNAUTHORIZED),
//!     }
//! }
//!
//! let pulse = Pulse::builder().build()?;
//! let admin = pulse
//!     .mount("/admin/pulse", Access::open().allow_any_host())
//!     .route_layer(middleware::from_fn(operators_only));
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(pulse.layer())
//!     .merge(admin);
//! # Ok(()) }
//! ```

pub use tower_pulse_admin::{Access, Permission};
