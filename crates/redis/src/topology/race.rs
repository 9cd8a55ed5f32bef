//! Asks several servers the same question until one answers.

use std::time::Duration;

use tokio::task::JoinSet;

use super::address::Address;
use tower_pulse_core::error::{Result, StoreError, StoreErrorKind};
use tower_pulse_core::store::StoreFuture;

/// The time that a server has to answer before the next server is asked too.
const HEAD_START: Duration = Duration::from_millis(150);

/// Returns the first answer. When a server fails, the next server is asked at once.
///
/// # Errors
/// Fails if no server answered. The error has the reasons of the first three failures. Its kind is that of the first
/// error that a server sent, or [`StoreErrorKind::Unreachable`].
pub(super) async fn first_answer<T: Send + 'static>(
    servers: Vec<Address>,
    ask: impl Fn(Address) -> StoreFuture<'static, T>,
) -> Result<T> {
    let mut asked = JoinSet::new();
    let mut failures: Vec<StoreError> = Vec::new();
    let mut waiting = servers.into_iter();
    loop {
        if let Some(server) = waiting.next() {
            asked.spawn(ask(server));
        }
        let has_more = waiting.len() > 0;
        let head_start = if has_more { HEAD_START } else { Duration::MAX };
        match tokio::time::timeout(head_start, asked.join_next()).await {
            Ok(Some(Ok(Ok(answer)))) => return Ok(answer),
            Ok(Some(Ok(Err(error)))) => failures.push(error),
            // The server is late, so the next server is asked too. A task never panics.
            Ok(Some(Err(_))) | Err(_) => {}
            Ok(None) => break,
        }
    }
    let mut kinds = failures.iter().map(StoreError::kind);
    let is_answered = |kind: &StoreErrorKind| {
        !matches!(kind, StoreErrorKind::Unreachable | StoreErrorKind::TimedOut)
    };
    let kind = kinds.find(is_answered);
    let kind = kind.unwrap_or(StoreErrorKind::Unreachable);
    let reasons: Vec<_> = failures.iter().take(3).map(StoreError::to_string).collect();
    Err(StoreError::new(kind, reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(names: &[&str]) -> Vec<Address> {
        let addresses = names.iter().map(|name| Address::announced(name, 1));
        addresses.flatten().collect()
    }

    fn ask(server: Address) -> StoreFuture<'static, String> {
        Box::pin(async move {
            match &*server.host {
                "silent" => std::future::pending().await,
                "down" => Err(StoreError::new(StoreErrorKind::Unreachable, "down")),
                "denies" => Err(StoreError::new(StoreErrorKind::Forbidden, "denies")),
                _ => Ok(server.host),
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn servers_that_are_down_or_silent_are_passed_over() {
        let answer = first_answer(servers(&["silent", "down", "third", "fourth"]), ask).await;
        assert_eq!(answer.expect("an answer"), "third");
    }

    #[tokio::test(start_paused = true)]
    async fn the_error_has_the_reason_of_each_server() {
        let error = first_answer(servers(&["down", "denies"]), ask).await;
        let error = error.expect_err("no answer");
        assert_eq!(error.kind(), StoreErrorKind::Forbidden);
        assert_eq!(error.to_string(), "down; denies");
        assert!(first_answer(Vec::new(), ask).await.is_err());
    }
}
