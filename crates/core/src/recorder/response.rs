//! The rules that decide which responses count as errors.

use std::fmt;
use std::sync::Arc;

use http::{Extensions, HeaderMap, HeaderName, StatusCode};

/// The head of a response, which the function of `Builder::count_as_error` gets.
#[derive(Debug)]
#[non_exhaustive]
pub struct ResponseHead<'a> {
    /// The status code.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The extensions. A handler can mark its response with an extension.
    pub extensions: &'a Extensions,
    /// Whether the request was a POST, as all requests of gRPC are.
    may_be_grpc: bool,
}

impl<'a> ResponseHead<'a> {
    /// The head of a response.
    #[inline]
    #[doc(hidden)]
    pub fn new(
        status: StatusCode,
        headers: &'a HeaderMap,
        extensions: &'a Extensions,
        may_be_grpc: bool,
    ) -> Self {
        Self {
            status,
            headers,
            extensions,
            may_be_grpc,
        }
    }

    /// Whether the response counts as an error by default: its status is 500 or above, or it has a `grpc-status` header
    /// other than 0 and the request was a POST, as in gRPC.
    #[inline]
    pub fn is_error(&self) -> bool {
        !(100..500).contains(&self.status.as_u16()) || self.may_be_grpc && grpc_failed(self.headers)
    }
}

/// A user's rule that decides which responses are errors.
pub type ErrorRule = dyn Fn(&ResponseHead<'_>) -> bool + Send + Sync;

/// The user's rule for errors, if there is one.
#[derive(Clone, Default)]
pub struct MaybeErrorRule(pub Option<Arc<ErrorRule>>);

impl fmt::Debug for MaybeErrorRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_set = self.0.is_some();
        f.debug_tuple("MaybeErrorRule").field(&is_set).finish()
    }
}

/// Whether the head has a gRPC status that is not OK. Most responses have few headers, so comparing all names costs
/// less than hashing one name.
#[inline(never)]
fn grpc_failed(headers: &HeaderMap) -> bool {
    static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
    let status = if headers.len() <= 4 {
        headers
            .iter()
            .find_map(|(name, value)| (*name == GRPC_STATUS).then_some(value))
    } else {
        headers.get(&GRPC_STATUS)
    };
    status.is_some_and(|status| status != "0")
}
