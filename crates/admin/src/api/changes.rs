//! Acknowledging a change, and withdrawing an acknowledgement: `POST api/changes`.

use http::StatusCode;
use serde::Deserialize;

use super::super::response::ApiError;
use super::super::{Admin, Instance};
use tower_pulse_core::query::json::ScreenSize;
use tower_pulse_core::query::source;

/// The body of a request that acknowledges a change, or withdraws its acknowledgement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Take {
    id: String,
    taken: bool,
}

/// Acknowledges the change that a JSON body names, or withdraws its acknowledgement. Answers with the updated change.
pub(crate) async fn take(
    admin: &Admin,
    instance: &Instance,
    by: &str,
    body: &[u8],
) -> Result<Vec<u8>, ApiError> {
    let take: Take = serde_json::from_slice(body).map_err(|_| {
        let message = r#"the body must be a JSON object as {"id": "65536e40-…", "taken": true}"#;
        ApiError::new(StatusCode::BAD_REQUEST, message)
    })?;
    let by = take.taken.then_some(by);
    let change = instance.write.acknowledge_change(&take.id, by).await?;
    source(&admin.query).reader.forget_changes().await;
    Ok(ScreenSize::default().to_json(&change, ("id", "ask for api/changes"))?)
}
