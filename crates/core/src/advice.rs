//! Advice on where to add the layer. Logs, health and the screens show the same text.

use tower_pulse_model::outcome::{Outcome, OutcomeCounts};

/// Advice on how to add the layer, so that no data about requests is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Advice {
    /// Sentences about the problem.
    pub text: &'static str,
    /// Lines of Rust that solve the problem.
    pub code: &'static str,
}

/// Advice if requests without a route were answered successfully.
pub const UNMATCHED: Advice = Advice {
    text: "Requests that matched no route were answered with 2xx, and are counted together as <unmatched>. If requests to \
           your routes are among them, the layer sees no route: add it by `Router::layer` of axum 0.8, and not around the \
           whole Router. A service behind `fallback_service` or `nest_service` has no route: give it a name",
    code: ".fallback_service(\n    tower::ServiceBuilder::new().layer(pulse.layer().named(\"static\")).service(files),\n)",
};

/// Advice if no request to a route was recorded.
pub const NO_ROUTES: Advice = Advice {
    text: "No request to a route is recorded. Routes added after `.layer(pulse.layer())`, or by an axum other than \
           0.8, are not recorded: add the layer after all routes, and send a request",
    code: ".route(\"/\", get(home))\n.layer(pulse.layer()) // after all routes\n.merge(pulse.mount(\"/admin/pulse\", access))",
};

/// Advice if many requests were cancelled.
pub const CANCELLED: Advice = Advice {
    text: "More than a fifth of these requests were cancelled before they had a response: the clients went away, or a timeout \
           around the layer ended them. The layer does not see the response of such a timeout, and counts no error. \
           Add the layer after the timeout, so that the layer is outside",
    code: ".layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, timeout))\n.layer(pulse.layer())",
};

/// [`Advice::about_all`] returns [`UNMATCHED`] if at least 1/`UNMATCHED_OF` of all requests have no route and were
/// answered with 2xx.
const UNMATCHED_OF: u64 = 100;
/// [`Advice::about`] returns [`CANCELLED`] if more than 1/`CANCELLED_OF` of the requests were cancelled.
const CANCELLED_OF: u64 = 5;

impl Advice {
    /// The advice about the requests of one context.
    pub fn about(outcomes: &OutcomeCounts, is_unmatched: bool) -> Vec<Self> {
        let count = |outcome| outcomes.count(outcome);
        let has_unmatched = is_unmatched && count(Outcome::Success) > 0;
        let cancelled = count(Outcome::Cancelled);
        let has_cancelled = cancelled.saturating_mul(CANCELLED_OF) > outcomes.total();
        let advice = [(has_unmatched, UNMATCHED), (has_cancelled, CANCELLED)];
        advice
            .into_iter()
            .filter_map(|(is_due, advice)| is_due.then_some(advice))
            .collect()
    }

    /// The advice about all requests, from their number and the outcomes of the requests without a route.
    pub fn about_all(all: u64, unmatched: &OutcomeCounts) -> Option<Self> {
        let answered = unmatched.count(Outcome::Success);
        if answered > 0 && answered.saturating_mul(UNMATCHED_OF) >= all {
            return Some(UNMATCHED);
        }
        (all > 0 && unmatched.total() == all).then_some(NO_ROUTES)
    }
}

impl std::fmt::Display for Advice {
    /// Writes the advice in one line, for logs and health.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text)?;
        f.write_str(": ")?;
        let mut lines = self
            .code
            .lines()
            .map(|line| line.split(" //").next().unwrap_or(line).trim());
        lines.try_for_each(|line| f.write_str(line))
    }
}
