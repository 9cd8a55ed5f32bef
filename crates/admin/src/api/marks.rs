//! Making a mark: `POST api/marks`.

use http::request::Parts;
use http::{StatusCode, header};
use serde::Deserialize;

use super::super::answer_size::{AnswerSize, ScreenSize};
use super::super::response::ApiError;
use super::super::{Admin, Instance};
use tower_pulse_model::mark::Mark;

/// The body of a request that makes a mark.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMark {
    text: String,
}

/// Refuses a request that a page of another site has made, and one whose body is no JSON.
pub(crate) fn check_head(parts: &Parts) -> Result<(), ApiError> {
    refuse_other_sites(parts)?;
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|value| value.split(';').next());
    if !essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json")) {
        let message = "the content-type must be application/json";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    Ok(())
}

/// Makes a mark of a JSON body, and answers with it.
pub(crate) async fn add(
    admin: &Admin,
    instance: &Instance,
    body: &[u8],
) -> Result<Vec<u8>, ApiError> {
    let new: NewMark = serde_json::from_slice(body).map_err(|_| {
        let message = r#"the body must be a JSON object as {"text": "new index"}"#;
        ApiError::new(StatusCode::BAD_REQUEST, message)
    })?;
    let id = format!("{:016x}", fastrand::u64(..));
    let now = admin.query.source().clock.now_seconds();
    let mark = Mark::of_text(id, now, &new.text)
        .map_err(|error| ApiError::parameter("text", format!("text {error}")))?;
    let added = (instance.add_mark)(mark.clone()).await;
    added.map_err(|error| ApiError::unavailable(error.to_string()))?;
    admin.query.source().reader.forget_marks().await;
    let (screen, less) = (ScreenSize::default(), ("text", "use a shorter text"));
    let size = AnswerSize {
        screen: &screen,
        less,
    };
    size.to_json(&mark)
}

/// Refuses a request that a page of another site has made with the browser's credentials.
fn refuse_other_sites(parts: &Parts) -> Result<(), ApiError> {
    let text = |name| {
        let value = parts.headers.get(name)?;
        Some(value.to_str().unwrap_or_default())
    };
    let refused = || {
        let message = "requests from pages of other sites are refused";
        ApiError::new(StatusCode::FORBIDDEN, message)
    };
    // A browser sends it to trustworthy URLs, and no script can set it. A proxy may have replaced `Host`, so that it
    // says more than the comparison below.
    match text(header::HeaderName::from_static("sec-fetch-site")) {
        Some("same-origin" | "none") => return Ok(()),
        Some(_) => return Err(refused()),
        None => {}
    }
    if let Some(origin) = text(header::ORIGIN) {
        let host = text(header::HOST).or(parts.uri.authority().map(|host| host.as_str()));
        let origin = origin.split_once("://").map(|(_, host)| host);
        let is_own = origin
            .zip(host)
            .is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host));
        if !is_own {
            return Err(refused());
        }
    }
    Ok(())
}
