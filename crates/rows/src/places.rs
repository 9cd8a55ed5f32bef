//! The places of a cache: permits that bound how many rows this process loads at once.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// The places of a cache. The daemon and the callers get places alternately.
#[derive(Debug)]
pub(super) struct Places {
    /// At most two wait for a permit at once: the daemon and one caller.
    permits: Arc<Semaphore>,
    /// Held by the caller that waits for a permit. The other callers wait for this lock, in order.
    first_caller: Mutex<()>,
}

/// The right to load one row. The place becomes free when the `Place` and all futures of [`Place::scope`] are dropped.
#[derive(Debug)]
pub(super) struct Place {
    /// The places that the load holds: its own place, and the places of all loads that wait for it, in any cache.
    held: Vec<Held>,
}

/// A place that a load holds. The load may lend the place to a *nested* load: a load in the same cache that the first
/// load has started, and waits for.
#[derive(Clone, Debug)]
struct Held {
    /// The permits of the cache, which identify the cache.
    permits: Arc<Semaphore>,
    right: Right,
    /// Held by the one nested load that the load of this place waits for.
    nested: Arc<Mutex<()>>,
}

/// Frees a place when it is dropped. For a load that is not nested, the right is a permit of the cache. For a nested
/// load, the right is the lock `nested` together with the right of the waiting load: the place stays taken even if the
/// waiting load is aborted.
type Right = Arc<dyn Any + Send + Sync>;

tokio::task_local! {
    /// The places that the load of this task holds.
    static HELD: Vec<Held>;
}

impl Places {
    pub(super) fn new(places: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(places)),
            first_caller: Mutex::default(),
        }
    }

    /// Whether a place is free.
    pub(super) fn is_free(&self) -> bool {
        self.permits.available_permits() > 0
    }

    /// Whether this task is a load of this cache.
    pub(super) fn is_nested(&self) -> bool {
        HELD.try_with(|held| held.iter().any(|held| held.belongs_to(self)))
            .unwrap_or(false)
    }

    /// Waits for a place. A load that asks its own cache for another row would wait for itself, so the load lends its
    /// place to one such row at a time.
    pub(super) async fn for_caller(&self) -> Place {
        let held = HELD.try_with(Vec::clone).unwrap_or_default();
        let lender = held.iter().find(|held| held.belongs_to(self)).cloned();
        let right: Right = match lender {
            Some(Held { right, nested, .. }) => Arc::new((nested.lock_owned().await, right)),
            None => {
                let _first = self.first_caller.lock().await;
                Arc::new(self.permit().await)
            }
        };
        self.place(held, right)
    }

    /// Waits for a place, and takes up to `most` if more are free.
    pub(super) async fn for_daemon(&self, most: usize) -> Vec<Place> {
        let mut places = vec![self.place(Vec::new(), Arc::new(self.permit().await))];
        while places.len() < most
            && let Ok(permit) = self.permits.clone().try_acquire_owned()
        {
            places.push(self.place(Vec::new(), Arc::new(permit)));
        }
        places
    }

    /// Never `None`, because the semaphore is never closed.
    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().acquire_owned().await.ok()
    }

    fn place(&self, mut held: Vec<Held>, right: Right) -> Place {
        held.retain(|held| !held.belongs_to(self));
        held.push(Held {
            permits: self.permits.clone(),
            right,
            nested: Arc::default(),
        });
        Place { held }
    }
}

impl Held {
    fn belongs_to(&self, places: &Places) -> bool {
        Arc::ptr_eq(&self.permits, &places.permits)
    }
}

impl Place {
    /// Runs a load in this place.
    pub(super) fn scope<F: Future>(&self, load: F) -> impl Future<Output = F::Output> + use<F> {
        HELD.scope(self.held.clone(), load)
    }
}
