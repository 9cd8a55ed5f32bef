//! Adding a mark: `POST api/marks`; and removing one: `DELETE api/marks?id=`.

use http::StatusCode;
use serde::Deserialize;

use super::super::response::ApiError;
use super::super::{Admin, Instance};
use tower_pulse_core::query::json::{Less, ScreenSize};
use tower_pulse_core::query::{params, source};
use tower_pulse_model::mark::Mark;

/// The field that can make an answer too large, and the advice in that case.
const LESS: Less = ("text", "use a shorter text");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMark {
    text: String,
}

/// Adds the mark in a JSON body, and answers with it.
pub(crate) async fn add(
    admin: &Admin,
    instance: &Instance,
    body: &[u8],
) -> Result<Vec<u8>, ApiError> {
    let new: NewMark = serde_json::from_slice(body).map_err(|_| {
        let message = r#"the body must be a JSON object: {"text": "new index"}"#;
        ApiError::new(StatusCode::BAD_REQUEST, message)
    })?;
    let id = format!("{:016x}", fastrand::u64(..));
    let now = source(&admin.query).clock.now_seconds();
    let mark = Mark::of_text(id, now, &new.text)
        .map_err(|error| ApiError::parameter("text", format!("text {error}")))?;
    let added = instance.write.add_mark(mark.clone()).await;
    added.map_err(|error| ApiError::unavailable(error.to_string()))?;
    source(&admin.query).forget_marks().await;
    Ok(ScreenSize::default().to_json(&mark, LESS)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Removal {
    id: Option<String>,
}

/// Removes the mark with the given `id`, and answers with it.
pub(crate) async fn remove(
    admin: &Admin,
    instance: &Instance,
    query: Option<&str>,
) -> Result<Vec<u8>, ApiError> {
    let Removal { id } = params::parse(query, 0)?;
    let id = id.ok_or_else(|| ApiError::parameter("id", "id is missing"))?;
    let mark = instance.write.remove_mark(&id).await?;
    source(&admin.query).forget_marks().await;
    Ok(ScreenSize::default().to_json(&mark, LESS)?)
}
