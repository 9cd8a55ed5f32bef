//! The outcome of a request that was measured elsewhere.

use http::{Extensions, HeaderMap, StatusCode};

use super::response::{ErrorRule, ResponseHead};
use tower_pulse_model::outcome::Outcome;

/// The outcome of a request that `Pulse::record` records: the status of its response, or an [`Outcome`] if there was no
/// response.
///
/// A status implies the outcome of its class. `count_as_error`, which gets a response without headers, decides whether
/// the request is an error. An `Outcome` is an error if [`Outcome::is_error`] returns true.
#[derive(Clone, Copy, Debug)]
pub struct RequestOutcome(Ending);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Responded(StatusCode),
    Other(Outcome),
}

impl From<StatusCode> for RequestOutcome {
    fn from(status: StatusCode) -> Self {
        Self(Ending::Responded(status))
    }
}

impl From<Outcome> for RequestOutcome {
    fn from(outcome: Outcome) -> Self {
        Self(Ending::Other(outcome))
    }
}

impl RequestOutcome {
    /// The status of the response, if there was one.
    pub(super) fn status(self) -> Option<StatusCode> {
        match self.0 {
            Ending::Responded(status) => Some(status),
            Ending::Other(_) => None,
        }
    }

    /// The outcome, and whether it counts as an error.
    pub(super) fn judge(self, rule: Option<&ErrorRule>) -> (Outcome, bool) {
        let status = match self.0 {
            Ending::Responded(status) => status,
            Ending::Other(outcome) => return (outcome, outcome.is_error()),
        };
        // Empty maps allocate nothing.
        let (headers, extensions) = (HeaderMap::new(), Extensions::new());
        let head = ResponseHead::new(status, &headers, &extensions, false);
        let is_error = match rule {
            None => head.is_error(),
            Some(rule) => rule(&head),
        };
        (Outcome::from_status(status.as_u16()), is_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_judged_by_the_rule_and_an_outcome_by_itself() {
        let status = |code| RequestOutcome::from(StatusCode::from_u16(code).expect("a status"));
        assert_eq!(status(204).judge(None), (Outcome::Success, false));
        assert_eq!(status(503).judge(None), (Outcome::ServerError, true));
        assert_eq!(status(999).judge(None), (Outcome::ServerError, true));
        let rule = |head: &ResponseHead<'_>| head.status == StatusCode::TOO_MANY_REQUESTS;
        let judged = |ending: RequestOutcome| ending.judge(Some(&rule));
        assert_eq!(judged(status(429)), (Outcome::ClientError, true));
        assert_eq!(judged(status(503)), (Outcome::ServerError, false));
        assert_eq!(judged(Outcome::Panicked.into()), (Outcome::Panicked, true));
        let cancelled = judged(Outcome::Cancelled.into());
        assert_eq!(cancelled, (Outcome::Cancelled, false));
    }
}
