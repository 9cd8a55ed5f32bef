//! Writes that a store applies once however often they are sent: each names its revision, or the version that it
//! replaces.

use std::time::Duration;

use crate::error::{StoreError, StoreErrorKind};
use crate::store::StoreFuture;

/// How often a write is sent until an answer comes.
const MAX_TRIES: usize = 3;
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Sends a write, and sends it again if no answer came. The answer then says whether it had taken effect.
pub async fn send_until_answered<'a, T>(
    mut send: impl FnMut() -> StoreFuture<'a, T>,
) -> Result<T, StoreError> {
    let mut tries = 1;
    loop {
        match send().await {
            Err(error) if tries < MAX_TRIES && is_in_doubt(&error) => {
                tries += 1;
                tokio::time::sleep(RETRY_DELAY).await;
            }
            result => return result,
        }
    }
}

fn is_in_doubt(error: &StoreError) -> bool {
    matches!(
        error.kind(),
        StoreErrorKind::TimedOut | StoreErrorKind::Unreachable
    )
}
