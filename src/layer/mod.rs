//! The middleware: times each request and records it under a context.
//!
//! | To time | Use |
//! |---|---|
//! | an axum router, by method and route template | [`Pulse::layer`](crate::Pulse::layer) with `Router::layer`, after all routes |
//! | by template alone | [`.path_only()`](PulseLayer::path_only) |
//! | a service without routes: files, `nest_service`, `fallback_service` | [`.named("static")`](PulseLayer::named) around that service |
//! | by anything in the request's head | [`.context(f)`](PulseLayer::context), or [`Pulse::layer_with`](crate::Pulse::layer_with) without axum |
//! | until the body's end instead of the head | [`.until_body_end()`](PulseLayer::until_body_end) |
//!
//! # Which context
//!
//! - Requests that match no route share the context `<unmatched>`, whatever their path; methods that HTTP does not
//!   define share the name `OTHER`. A 405 keeps its template.
//! - Within a nested router, the context has the whole template. A layer that wraps a `Router` from outside, not by
//!   `Router::layer`, gets no template.
//! - A request within several layers of one `Pulse` counts once. The outermost layer measures; the innermost
//!   [`named`](PulseLayer::named) or [`context`](PulseLayer::context) sets the context. The route template of an inner
//!   layer is used where the outer layers get no route, for example within `nest_service`.
//! - A request is not recorded if it is [ignored](crate::Builder::ignore), if a context function returns `None` for it,
//!   or if its response has the extension [`Unrecorded`](crate::Unrecorded).
//!
//! # When a request ends
//!
//! A request ends exactly once: with the head of its response (or the end of the body), a service error, a panic, or
//! its drop. A drop before the head counts as `cancelled`. A WebSocket is timed until its upgrade (101, in HTTP/2 200),
//! and server-sent events until they begin. The status and `grpc-status` of a response, or the function of
//! [`Builder::count_as_error`](crate::Builder::count_as_error), decide whether the response counts as an error. A
//! [`Failure`](crate::Failure) among the extensions of a response names its kind of error.
//!
//! # Cost
//!
//! A request needs no I/O and no lock across an await: see [what it costs](crate::guide::cost). Once its route has been
//! seen, a plain request allocates nothing. A request allocates if it has timers or a span, is timed until the body's
//! end, or is [listed](crate::guide::slow_requests). axum creates the layers of a router anew for each connection,
//! unless `with_state` was called: end the router with `.with_state(())`.

// Read in this order: `layer` (added by the user), `service` and `future` (run for each request), `guard` (ends the
// measurement, once), `span` (the span of a request), `details` (needed only if the request is slow or fails), `route`
// and `matched` (find the context), `source` (the user's choice of contexts), and `body` (times until the end of the
// body).

mod body;
mod details;
mod future;
mod guard;
#[allow(clippy::module_inception)]
mod layer;
#[cfg(feature = "axum")]
mod matched;
mod route;
mod service;
mod source;
mod span;

pub use body::TimedBody;
pub use future::{BodyEndFuture, ResponseFuture};
pub use layer::PulseLayer;
pub use service::PulseService;
pub use source::Head;
pub(crate) use source::{IgnoreList, Source};

pub use tower_pulse_core::recorder::ResponseHead;
