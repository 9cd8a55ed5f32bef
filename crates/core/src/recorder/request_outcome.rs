//! The outcome of a request that was measured elsewhere.

use http::{Extensions, HeaderMap, StatusCode};

use super::Ended;
use super::response::{ErrorRule, ResponseHead};
use tower_pulse_model::outcome::Outcome;

/// The outcome of a request that `Pulse::record` records: the status of its response, or an [`Outcome`] if there was no
/// response.
///
/// A status implies the outcome of its class. The rule of `count_as_error` decides whether the request is an error.
/// This rule gets a response without headers. An `Outcome` is an error if [`Outcome::is_error`] returns true.
#[derive(Clone, Copy, Debug)]
pub struct RequestOutcome(Outcome, Option<StatusCode>);

impl From<StatusCode> for RequestOutcome {
    fn from(status: StatusCode) -> Self {
        Self(Outcome::from_status(status.as_u16()), Some(status))
    }
}

impl From<Outcome> for RequestOutcome {
    fn from(outcome: Outcome) -> Self {
        Self(outcome, None)
    }
}

impl RequestOutcome {
    /// How the request ended, by the user's rule for errors if there is one.
    pub(super) fn ended(self, rule: Option<&ErrorRule>) -> Ended {
        let Self(outcome, status) = self;
        let is_error = status.map(|status| {
            // Empty maps allocate nothing.
            let (headers, extensions) = (HeaderMap::new(), Extensions::new());
            let head = ResponseHead::new(status, &headers, &extensions, false);
            rule.map_or_else(|| head.is_error(), |rule| rule(&head))
        });
        Ended {
            outcome,
            is_error: is_error.unwrap_or(outcome.is_error()),
            status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_for_errors_applies_to_a_status_but_not_to_an_outcome() {
        let status = |code| RequestOutcome::from(StatusCode::from_u16(code).expect("a status"));
        let by = |rule, outcome: RequestOutcome| {
            let ended = outcome.ended(rule);
            (ended.outcome, ended.is_error)
        };
        assert_eq!(by(None, status(204)), (Outcome::Success, false));
        assert_eq!(by(None, status(503)), (Outcome::ServerError, true));
        assert_eq!(by(None, status(999)), (Outcome::ServerError, true));
        let rule: &ErrorRule = &|head| head.status == StatusCode::TOO_MANY_REQUESTS;
        let by_rule = |outcome| by(Some(rule), outcome);
        assert_eq!(by_rule(status(429)), (Outcome::ClientError, true));
        assert_eq!(by_rule(status(503)), (Outcome::ServerError, false));
        assert_eq!(by_rule(Outcome::Panicked.into()), (Outcome::Panicked, true));
        let cancelled = by_rule(Outcome::Cancelled.into());
        assert_eq!(cancelled, (Outcome::Cancelled, false));
    }
}
