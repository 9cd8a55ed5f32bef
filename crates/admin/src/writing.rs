//! Checks of requests that write: their origin, their rate and their bodies.

use std::time::Duration;

use axum::body::Body;
use http::request::Parts;
use http::{StatusCode, header};
use http_body::Body as _;

use super::response::ApiError;
use super::{Instance, Permission, Source};
use tower_pulse_core::error::AmendError;

/// The largest body of a request, in bytes.
const MAX_BODY: usize = 16 * 1024;

/// The longest time for a body to arrive.
const BODY_DEADLINE: Duration = Duration::from_secs(5);

impl From<AmendError> for ApiError {
    fn from(error: AmendError) -> Self {
        let status = match &error {
            AmendError::NotFound(_) => StatusCode::NOT_FOUND,
            AmendError::Conflict(_) => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}

impl Source {
    /// Returns the instance to which a request may write, and counts the request.
    pub(super) fn instance_to_write(
        &self,
        parts: &Parts,
        permission: &Permission,
        has_body: bool,
    ) -> Result<&Instance, ApiError> {
        let refused = |message| ApiError::new(StatusCode::FORBIDDEN, message);
        if !permission.may_write() {
            let message =
                "your access is read-only: it cannot make or remove marks, or acknowledge changes";
            return Err(refused(message));
        }
        let instance = self.instance.as_ref().ok_or_else(|| {
            refused("this dashboard only reads: send the request to an instance of the service")
        })?;
        refuse_other_sites(parts)?;
        if has_body {
            refuse_other_types(parts)?;
        }
        instance.write_limit.count()?;
        Ok(instance)
    }
}

pub(super) fn check_size(body: &Body) -> Result<(), ApiError> {
    match body.size_hint().lower() > MAX_BODY as u64 {
        true => Err(too_large()),
        false => Ok(()),
    }
}

pub(super) async fn read(body: Body) -> Result<bytes::Bytes, ApiError> {
    let body = axum::body::to_bytes(body, MAX_BODY);
    let body = tokio::time::timeout(BODY_DEADLINE, body).await;
    let body = body.map_err(|_| {
        let message = "the body did not arrive in time";
        ApiError::new(StatusCode::REQUEST_TIMEOUT, message)
    })?;
    body.map_err(|_| too_large())
}

fn too_large() -> ApiError {
    let message = format!("the body may have at most {MAX_BODY} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// Refuses a body that is not declared as JSON: a page of another site may send other types without a preflight.
fn refuse_other_types(parts: &Parts) -> Result<(), ApiError> {
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|value| value.split(';').next());
    if !essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json")) {
        let message = "the content-type must be application/json";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    Ok(())
}

/// Refuses a request that a page of another site has made with the browser's credentials.
fn refuse_other_sites(parts: &Parts) -> Result<(), ApiError> {
    let text = |name| {
        let value = parts.headers.get(name)?;
        Some(value.to_str().unwrap_or_default())
    };
    let site = header::HeaderName::from_static("sec-fetch-site");
    let is_own = match (text(site), text(header::ORIGIN)) {
        // A browser sends this header to trustworthy URLs, and no script can set it. The comparison below is less
        // reliable, because a proxy may have replaced `Host`.
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, None) => true,
        (None, Some(origin)) => {
            let host = text(header::HOST).or(parts.uri.authority().map(|host| host.as_str()));
            let both = origin.split_once("://").zip(host);
            both.is_some_and(|((_, origin), host)| origin.eq_ignore_ascii_case(host))
        }
    };
    if !is_own {
        let message = "requests from pages of other sites are refused";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    Ok(())
}
