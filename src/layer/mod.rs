//! The middleware. Read `layer` (what a user adds), `service` and `future` (what a request runs
//! through), `guard` (what ends its measurement, once), `route` (which context it belongs to),
//! `source` (what the user may say about that), and `body` (timing to the body's end).

mod body;
mod future;
mod guard;
#[allow(clippy::module_inception)]
mod layer;
#[cfg(feature = "axum")]
mod matched;
mod route;
mod service;
mod source;

pub use body::TimedBody;
pub use future::{BodyEndFuture, ResponseFuture};
pub use layer::{BodyEndLayer, PulseLayer};
pub use service::{BodyEndService, PulseService};
pub use source::Head;
pub(crate) use source::Skips;
pub(crate) use source::Source;

pub use crate::recorder::ResponseHead;
