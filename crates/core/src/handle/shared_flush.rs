//! One flush for all callers that wait at the same time.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use crate::error::StoreError;

/// Callers that arrive during a flush wait for the end of this flush, and share the next flush.
#[derive(Default)]
pub(super) struct SharedFlush {
    begun: AtomicU64,
    /// The number of the last flush that has ended, and its result.
    last: Mutex<Option<(u64, Result<(), StoreError>)>>,
}

impl SharedFlush {
    /// Runs a flush that begins after this call, or waits for a flush that another caller has begun after this call.
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
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn callers_share_the_flush_that_begins_after_their_calls() {
        let shared = Arc::new(SharedFlush::default());
        let flushes = Arc::new(AtomicUsize::new(0));
        let permits = Arc::new(Semaphore::new(0));
        let caller = || {
            let (shared, flushes, permits) = (shared.clone(), flushes.clone(), permits.clone());
            tokio::spawn(async move {
                let flush = async {
                    flushes.fetch_add(1, Ordering::SeqCst);
                    permits.acquire().await.expect("open").forget();
                    Ok(())
                };
                shared.run(flush).await
            })
        };
        let first = caller();
        tokio::task::yield_now().await;
        let later: Vec<_> = (0..20).map(|_| caller()).collect();
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(flushes.load(Ordering::SeqCst), 1);
        permits.add_permits(2);
        for task in later.into_iter().chain([first]) {
            assert!(task.await.expect("the caller ends").is_ok());
        }
        assert_eq!(flushes.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn after_a_dropped_caller_the_next_caller_flushes() {
        let shared = SharedFlush::default();
        let never = shared.run(std::future::pending());
        assert!(never.now_or_never().is_none());
        let error = || StoreError::new(crate::error::StoreErrorKind::Refused, "full");
        assert!(shared.run(async { Err(error()) }).await.is_err());
        assert!(shared.run(async { Ok(()) }).await.is_ok());
    }
}
