//! The trace id and the path of a request, which are recorded if it is slow or fails.

use tower_pulse_model::slow_request::{MAX_PATH, MAX_TRACE_ID};

/// Which details of slow and failed requests are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetailOptions {
    /// The id of the trace or of the request.
    pub trace_ids: bool,
    /// The path without the query.
    pub paths: bool,
}

impl DetailOptions {
    /// Whether there are any.
    pub fn any(self) -> bool {
        self.trace_ids | self.paths
    }

    /// The most bytes of text of a listed request.
    pub fn max_bytes(self) -> usize {
        let bytes = [(self.trace_ids, MAX_TRACE_ID), (self.paths, MAX_PATH)];
        bytes.iter().filter(|(on, _)| *on).map(|(_, n)| n).sum()
    }
}

/// The details of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestDetails<'a> {
    /// The id of the trace or of the request.
    pub trace_id: Option<&'a str>,
    /// The path without the query.
    pub path: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_request_is_bounded_by_the_options() {
        let options = |trace_ids, paths| DetailOptions { trace_ids, paths };
        let bytes = [(false, false), (true, false), (false, true), (true, true)]
            .map(|(trace_ids, paths)| options(trace_ids, paths).max_bytes());
        assert_eq!(bytes, [0, 64, 256, 320]);
    }
}
