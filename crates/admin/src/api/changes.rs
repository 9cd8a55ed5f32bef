//! Acknowledging a change, and withdrawing an acknowledgement: `POST api/changes`.

use http::StatusCode;
use serde::Deserialize;

use super::super::response::ApiError;
use super::super::{Admin, Instance};
use tower_pulse_core::query::json::ScreenSize;
use tower_pulse_core::query::source;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acknowledge {
    id: String,
    acknowledged: bool,
    /// The name of the caller, if `Access` gives none.
    by: Option<String>,
}

/// Acknowledges the change that a JSON body names, or withdraws its acknowledgement. Answers with the updated change.
/// `caller` is the name that `Access` gives: a caller cannot act under another name.
pub(crate) async fn acknowledge(
    admin: &Admin,
    instance: &Instance,
    caller: Option<&str>,
    body: &[u8],
) -> Result<Vec<u8>, ApiError> {
    let body: Acknowledge = serde_json::from_slice(body).map_err(|_| {
        let message =
            r#"the body must be a JSON object: {"id": "65536e40-…", "acknowledged": true}"#;
        ApiError::new(StatusCode::BAD_REQUEST, message)
    })?;
    if caller.is_some() && body.by.is_some() {
        let message = "do not send the field `by`: your login gives your name";
        return Err(ApiError::parameter("by", message));
    }
    let name = caller.or(body.by.as_deref()).unwrap_or_default();
    let by = body.acknowledged.then_some(name);
    let change = instance.write.acknowledge_change(&body.id, by).await?;
    source(&admin.query).forget_changes().await;
    Ok(ScreenSize::default().to_json(&change, ("id", "ask for api/changes"))?)
}
