//! `api/screen`: several questions in one request. A screen of the dashboard asks all its questions together.

use std::future::poll_fn;
use std::task::Poll;

use http::StatusCode;

use super::super::Admin;
use super::super::response::ApiError;
use tower_pulse_core::query::json::{ScreenSize, Written, ask};
use tower_pulse_core::query::params;

/// The most questions per request.
const MAX_ASKS: usize = 16;

/// The longest question, in bytes: a context of the longest name, each byte percent-encoded, and other parameters.
const MAX_ASK_BYTES: usize = 4_096;

/// Answers all `ask` parameters concurrently, each as its own endpoint would. The answers are in the order of the
/// parameters. `as_of` is the earliest `as_of` of an answer. Fails if the answers are too large together.
pub(crate) async fn screen(admin: &Admin, query: Option<&str>) -> Result<Written, ApiError> {
    let asks = params::pairs(query)?;
    if let Some((unknown, _)) = asks.iter().find(|(name, _)| name != "ask") {
        let message = format!("{unknown} is unknown here: only the parameter `ask` is allowed");
        return Err(ApiError::parameter(unknown, message));
    }
    if asks.is_empty() {
        return Err(ApiError::parameter("ask", "ask is missing"));
    }
    if asks.len() > MAX_ASKS {
        let message = format!("ask is given more than {MAX_ASKS} times");
        return Err(ApiError::parameter("ask", message));
    }
    let size = ScreenSize::default();
    let answers = join_all(asks.iter().map(|(_, ask)| answer(admin, ask, &size)), &size).await?;
    let successful = answers.iter().filter_map(|answer| answer.as_ref().ok());
    let as_of = successful.filter_map(|answer| answer.as_of).min();
    let mut json = b"{\"answers\":[".to_vec();
    for (at, answer) in answers.into_iter().enumerate() {
        let (status, body) = match answer {
            Ok(answer) => (StatusCode::OK, answer.json),
            Err(error) => (error.status(), error.to_json()),
        };
        let comma = if at > 0 { "," } else { "" };
        let status = status.as_u16();
        json.extend_from_slice(format!("{comma}{{\"status\":{status},\"body\":").as_bytes());
        json.extend_from_slice(&body);
        json.push(b'}');
    }
    json.extend_from_slice(b"]}");
    Ok(Written { json, as_of })
}

/// Answers an `ask` such as `paths?window=1h`.
async fn answer(admin: &Admin, question: &str, size: &ScreenSize) -> Result<Written, ApiError> {
    if question.len() > MAX_ASK_BYTES {
        let message = format!("ask is longer than {MAX_ASK_BYTES} bytes");
        return Err(ApiError::parameter("ask", message));
    }
    if question.split('?').next() == Some("screen") {
        let message = "a screen cannot ask for a screen";
        return Err(ApiError::parameter("ask", message));
    }
    Ok(ask(&admin.query, question, size).await?)
}

/// Runs a few futures concurrently within this task. Returns their results in order, unless the results are too large
/// together. Yields to other tasks after each result, because computing a result may take a while.
async fn join_all<F: Future>(
    futures: impl Iterator<Item = F>,
    size: &ScreenSize,
) -> Result<Vec<F::Output>, ApiError> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    for _ in 0..running.len() {
        poll_fn(|context| {
            let mut unanswered = running.iter_mut().filter(|(_, result)| result.is_none());
            let is_answered = unanswered.any(|(future, result)| {
                if let Poll::Ready(value) = future.as_mut().poll(context) {
                    *result = Some(value);
                }
                result.is_some()
            });
            match is_answered {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        size.check()?;
        tokio::task::yield_now().await;
    }
    let results = running.into_iter();
    Ok(results.filter_map(|(_, result)| result).collect())
}
