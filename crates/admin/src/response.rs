//! Responses: JSON with an ETag, JSON errors, and the headers of every response.

use axum::body::Body;
use axum::response::Response;
use hmac_sha256::Hash;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use serde::Serialize;

use tower_pulse_core::query::answers::QueryError;
use tower_pulse_core::query::json::Written;
use tower_pulse_core::recorder::Unrecorded;

const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
const CHALLENGE: HeaderValue =
    HeaderValue::from_static("Basic realm=\"tower-pulse\", charset=\"UTF-8\"");
const ONE_SECOND: HeaderValue = HeaderValue::from_static("1");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An error response.
#[derive(Clone, Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
    parameter: Option<String>,
    /// The methods that are served, if another one was requested.
    allow: Option<&'static str>,
}

/// The response repeats the text of a store's error, which contains no secrets.
impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Parameter { name, message, .. } => Self::parameter(name, message),
            QueryError::NotFound(message) => Self::new(StatusCode::NOT_FOUND, message),
            error => Self::unavailable(error.to_string()),
        }
    }
}

#[derive(Serialize)]
struct FailureJson<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<&'a str>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            parameter: None,
            allow: None,
        }
    }

    /// 405: only these methods are served.
    pub(super) fn method(allow: &'static str) -> Self {
        let message = format!("only {allow} are served here");
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, message)
        }
    }

    /// 400: the parameter `name` is invalid. The message must not repeat the parameter's value, unless the value is a
    /// number.
    pub(super) fn parameter(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            parameter: Some(name.into()),
            ..Self::new(StatusCode::BAD_REQUEST, message)
        }
    }

    /// 503: the answer is not available now, for the reason in the message.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let json = FailureJson {
            error: &self.message,
            parameter: self.parameter.as_deref(),
        };
        // Serializing two strings never fails.
        serde_json::to_vec(&json).unwrap_or_default()
    }

    pub(super) fn into_response(self) -> Response {
        let mut response = json_with_status(self.status, self.to_json());
        let allow = self.allow.map(HeaderValue::from_static);
        let header = match self.status {
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, CHALLENGE)),
            StatusCode::METHOD_NOT_ALLOWED => allow.map(|allow| (header::ALLOW, allow)),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                Some((header::RETRY_AFTER, ONE_SECOND))
            }
            _ => None,
        };
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// Answers 200 with the answer and its `as_of`, or 304 if the caller already has the same answer, even with another
/// `as_of`. Because `as_of` may differ, the ETag is weak.
///
/// The answer has an ETag although [`finish`] forbids storing it: `no-store` keeps the data out of the caches of
/// browsers and proxies, while the dashboard holds the last answer in memory and sends `If-None-Match` itself.
pub(super) fn json(parts: &Parts, answer: Written) -> Response {
    let hash = half_of(Hash::hash(&answer.json));
    let etag = etag(format!("W/\"{hash}\""));
    tagged(parts, etag, || body(answer.whole(), JSON))
}

/// JSON with a status: the answer to a write, or any error.
pub(super) fn json_with_status(status: StatusCode, json: Vec<u8>) -> Response {
    with_status(status, body(json, JSON))
}

fn with_status(status: StatusCode, mut response: Response) -> Response {
    *response.status_mut() = status;
    response
}

pub(super) fn body(bytes: impl Into<Body>, content_type: HeaderValue) -> Response {
    let mut response = Response::new(bytes.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    response
}

/// A response with an ETag: a new response, or 304 if the caller has the version with this ETag.
pub(super) fn tagged(parts: &Parts, etag: HeaderValue, new: impl FnOnce() -> Response) -> Response {
    let mut response = match is_known(parts, &etag) {
        true => with_status(StatusCode::NOT_MODIFIED, Response::default()),
        false => new(),
    };
    response.headers_mut().insert(header::ETAG, etag);
    response
}

/// The ETag of a hash in hexadecimal digits, in quotes.
pub(super) fn etag(quoted: String) -> HeaderValue {
    let etag = HeaderValue::try_from(quoted);
    etag.unwrap_or(HeaderValue::from_static("\"\"")) // hex in quotes is valid
}

/// The first half of a digest, in 32 hexadecimal digits.
pub(super) fn half_of(digest: [u8; 32]) -> String {
    let half = u128::from_be_bytes(*digest.first_chunk().unwrap_or(&[0; 16]));
    format!("{half:032x}")
}

/// Whether `If-None-Match` lists `etag` or is `*`.
fn is_known(parts: &Parts, etag: &HeaderValue) -> bool {
    let opaque = |etag: &'_ [u8]| -> Vec<u8> { etag.strip_prefix(b"W/").unwrap_or(etag).to_vec() };
    let etag = opaque(etag.as_bytes());
    let given = parts.headers.get_all(header::IF_NONE_MATCH);
    given.iter().any(|list| {
        list.as_bytes().split(|byte| *byte == b',').any(|one| {
            let one = one.trim_ascii();
            one == b"*" || opaque(one) == etag
        })
    })
}

/// Completes every response, including errors: sets the headers, and marks the response as [`Unrecorded`]. An answer to
/// HEAD loses its body, and gets a header with the body's length.
pub(super) fn finish(method: &Method, response: &mut Response) {
    if *method == Method::HEAD {
        let body = std::mem::take(response.body_mut());
        if let Some(length) = body.size_hint().exact()
            && response.status() != StatusCode::NOT_MODIFIED
        {
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
    }
    response.extensions_mut().insert(Unrecorded);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    // Browsers that do not know `frame-ancestors` read this header.
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    let no_referrer = HeaderValue::from_static("no-referrer");
    headers.insert(header::REFERRER_POLICY, no_referrer);
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}
