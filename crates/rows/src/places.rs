//! The places of a cache, which bound how many rows this process loads at once.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// The places of a cache. The daemon and the callers take turns, so that neither waits for all loads of the other.
#[derive(Debug)]
pub(super) struct Places {
    /// Serves those who wait in their order: at most the daemon, and one caller.
    permits: Arc<Semaphore>,
    /// Held by the caller that waits for a permit. The other callers wait for this lock, in their order.
    first_caller: Mutex<()>,
}

/// The right to load one row. The place is free when the right and all futures of [`Place::scope`] are dropped.
#[derive(Debug)]
pub(super) struct Place {
    /// The places that the load holds: its own, and those of the loads that wait for it, of this cache and of others.
    held: Vec<Held>,
}

/// A place as its load and the loads below it see it.
#[derive(Clone, Debug)]
struct Held {
    /// The permits of the cache, which tell it from others.
    permits: Arc<Semaphore>,
    right: Arc<Right>,
    /// Held by the one load that the load of this place waits for.
    nested: Arc<Mutex<()>>,
}

#[derive(Debug)]
#[expect(dead_code, reason = "they are held, and freed when they are dropped")]
enum Right {
    /// A place of the cache. There is always a permit, as the semaphore is never closed.
    Permit(Option<OwnedSemaphorePermit>),
    /// The place of a load that waits for this one. It stays taken if that load is given up.
    Nested(OwnedMutexGuard<()>, Arc<Right>),
}

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
        HELD.try_with(|held| held.iter().any(|held| held.is_of(self)))
            .unwrap_or(false)
    }

    /// Waits for a place. A load that asks its own cache for another row would wait for itself: it lends its place, to
    /// one row at a time.
    pub(super) async fn for_caller(&self) -> Place {
        let held = HELD.try_with(Vec::clone).unwrap_or_default();
        let lender = held.iter().find(|held| held.is_of(self)).cloned();
        let right = match lender {
            Some(Held { right, nested, .. }) => Right::Nested(nested.lock_owned().await, right),
            None => {
                let _first = self.first_caller.lock().await;
                Right::Permit(self.permit().await)
            }
        };
        self.place(held, right)
    }

    /// Waits for a place, and takes up to `most` if more are free.
    pub(super) async fn for_daemon(&self, most: usize) -> DaemonPlaces<'_> {
        let mut permits = self.permit().await;
        let more = self.permits.available_permits().min(most.saturating_sub(1));
        let more = u32::try_from(more).unwrap_or(0);
        if let Some(permits) = &mut permits
            && let Ok(more) = self.permits.clone().try_acquire_many_owned(more)
        {
            permits.merge(more);
        }
        DaemonPlaces {
            places: self,
            permits,
        }
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().acquire_owned().await.ok()
    }

    fn place(&self, mut held: Vec<Held>, right: Right) -> Place {
        held.retain(|held| !held.is_of(self));
        held.push(Held {
            permits: self.permits.clone(),
            right: Arc::new(right),
            nested: Arc::default(),
        });
        Place { held }
    }
}

impl Held {
    fn is_of(&self, places: &Places) -> bool {
        Arc::ptr_eq(&self.permits, &places.permits)
    }
}

impl Place {
    /// A load in this place.
    pub(super) fn scope<F: Future>(&self, load: F) -> impl Future<Output = F::Output> + use<F> {
        HELD.scope(self.held.clone(), load)
    }
}

/// The places that the daemon has taken. Those that are left are free when this is dropped.
pub(super) struct DaemonPlaces<'a> {
    places: &'a Places,
    permits: Option<OwnedSemaphorePermit>,
}

impl DaemonPlaces<'_> {
    pub(super) fn len(&self) -> usize {
        let permits = self.permits.as_ref();
        permits.map_or(0, OwnedSemaphorePermit::num_permits)
    }

    pub(super) fn next(&mut self) -> Option<Place> {
        let permit = self.permits.as_mut()?.split(1)?;
        Some(self.places.place(Vec::new(), Right::Permit(Some(permit))))
    }
}
