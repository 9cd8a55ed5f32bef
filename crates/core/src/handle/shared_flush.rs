//! One flush for all callers that wait at the same time.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use crate::error::StoreError;

/// Callers that arrive during a flush wait for its end, and share the next flush.
#[derive(Default)]
pub(super) struct SharedFlush {
    /// Number of flushes that have begun.
    begun: AtomicU64,
    /// The number of the last flush that has ended, and its result.
    last: Mutex<Option<(u64, Result<(), StoreError>)>>,
}

impl SharedFlush {
    /// Runs a flush that begins after this call, or waits for such a flush of another caller.
    ///
    /// Cancel safe: if the caller that runs the flush is dropped, the next waiting caller runs its own flush.
    pub(super) async fn run(
        &self,
        flush: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        let before = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((number, result)) = &*last
            && *number > before
        {
            return result.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let result = flush.await;
        *last = Some((number, result.clone()));
        result
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_caller_that_goes_leaves_the_flush_to_the_next_one() {
        let shared = SharedFlush::default();
        let never = shared.run(std::future::pending());
        assert!(never.now_or_never().is_none());
        let error = || StoreError::new(crate::error::StoreErrorKind::Refused, "full");
        assert!(shared.run(async { Err(error()) }).await.is_err());
        assert!(shared.run(async { Ok(()) }).await.is_ok());
    }
}
