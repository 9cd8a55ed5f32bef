//! The permits of a cache, which bound how many rows this process loads at once. The daemon and the callers get permits
//! alternately.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(super) struct Permits {
    /// At most two tasks wait: the daemon and one caller.
    semaphore: Arc<Semaphore>,
    /// Held by the caller that waits for a permit. The other callers wait for this lock, in order.
    first_caller: Mutex<()>,
}

/// The right to load one row. The right ends when the `Permit` and all futures of [`Permit::scope`] are dropped.
#[derive(Debug)]
pub(super) struct Permit {
    /// The permits that the load holds: its own, and those of all loads that wait for this load, in any cache.
    held: Vec<Held>,
}

/// A permit that a load holds. The load may lend the permit to a *nested* load: a load in the same cache that this load
/// has started, and waits for.
#[derive(Clone, Debug)]
struct Held {
    /// The semaphore of the cache, which identifies the cache.
    semaphore: Arc<Semaphore>,
    right: Right,
    /// Held by the nested load to which this permit is lent.
    nested: Arc<Mutex<()>>,
}

/// Frees a permit when the last copy of the right is dropped. For a load that is not nested, the right is a permit of
/// the semaphore. For a nested load, the right is the lock `nested` with the right of the waiting load. So an abort of
/// the waiting load does not free the permit.
type Right = Arc<dyn Any + Send + Sync>;

tokio::task_local! {
    /// The permits that the load of this task holds.
    static HELD: Vec<Held>;
}

impl Permits {
    pub(super) fn new(count: usize) -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(count)),
            first_caller: Mutex::default(),
        }
    }

    pub(super) fn is_free(&self) -> bool {
        self.semaphore.available_permits() > 0
    }

    /// Whether a load that this task starts is nested.
    pub(super) fn is_nested(&self) -> bool {
        HELD.try_with(|held| held.iter().any(|held| held.belongs_to(self)))
            .unwrap_or(false)
    }

    /// Waits for a permit. A load that asks its own cache for another row would wait for itself. So the load lends its
    /// permit, to one nested load at a time.
    pub(super) async fn for_caller(&self) -> Permit {
        let held = HELD.try_with(Vec::clone).unwrap_or_default();
        let lender = held.iter().find(|held| held.belongs_to(self)).cloned();
        let right: Right = match lender {
            Some(Held { right, nested, .. }) => Arc::new((nested.lock_owned().await, right)),
            None => {
                let _first = self.first_caller.lock().await;
                Arc::new(self.acquired().await)
            }
        };
        self.permit(held, right)
    }

    /// Waits for a permit. If more permits are free, takes up to `most` in all.
    pub(super) async fn for_daemon(&self, most: usize) -> Vec<Permit> {
        let mut permits = vec![self.permit(Vec::new(), Arc::new(self.acquired().await))];
        while permits.len() < most
            && let Ok(free) = self.semaphore.clone().try_acquire_owned()
        {
            permits.push(self.permit(Vec::new(), Arc::new(free)));
        }
        permits
    }

    /// `None` only if the semaphore is closed, which never happens.
    async fn acquired(&self) -> Option<OwnedSemaphorePermit> {
        self.semaphore.clone().acquire_owned().await.ok()
    }

    fn permit(&self, mut held: Vec<Held>, right: Right) -> Permit {
        held.retain(|held| !held.belongs_to(self));
        held.push(Held {
            semaphore: self.semaphore.clone(),
            right,
            nested: Arc::default(),
        });
        Permit { held }
    }
}

impl Held {
    fn belongs_to(&self, permits: &Permits) -> bool {
        Arc::ptr_eq(&self.semaphore, &permits.semaphore)
    }
}

impl Permit {
    pub(super) fn scope<F: Future>(&self, load: F) -> impl Future<Output = F::Output> + use<F> {
        HELD.scope(self.held.clone(), load)
    }
}
