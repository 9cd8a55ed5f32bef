//! A caller of the store, which the test polls. The caller runs until it makes a call, and continues after the test has
//! answered the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tower_pulse::StoreError;
use tower_pulse_core::store::Append;
use tower_pulse_core::task::BoxFuture;

use crate::journal::net::{Reply, Request, Wire};
use crate::rig::instances::{TestFlusher, TestFolder};

/// The most polls between two calls.
const MAX_POLLS: usize = 100_000;

/// The clock by which processes sleep. The clock advances only if a process waits for nothing else.
pub struct Sleep(Runtime);

impl Sleep {
    pub fn new() -> Self {
        let mut builder = Builder::new_current_thread();
        Self(builder.enable_time().start_paused(true).build().unwrap())
    }
}

/// Whether a future was woken, and must be polled again.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A future that calls the store through its own wire.
pub struct Process {
    pub name: String,
    pub wire: Wire,
    /// The flusher, if the process flushes.
    flusher: Option<TestFlusher>,
    future: BoxFuture<'static, ()>,
}

impl Process {
    /// A process that repeatedly pauses, flushes, and asks whether its newest call can be read.
    pub fn flusher(name: &str, wire: &Wire, flusher: TestFlusher) -> Self {
        let (own, flushing) = (wire.clone(), flusher.clone());
        let process = Self::new(name, wire, async move {
            loop {
                own.pause().await;
                let flushed = flushing.flush().await;
                own.slot().idle_flushes += 1;
                let Ok(newest) = flushed else {
                    own.slot().idle_flushes = 0;
                    continue;
                };
                if let Some(newest) = newest {
                    let _ = own.readable(&newest).await;
                }
            }
        });
        Self {
            flusher: Some(flusher),
            ..process
        }
    }

    /// Panics if the process folds.
    pub fn as_flusher(&self) -> &TestFlusher {
        self.flusher.as_ref().expect("the process flushes")
    }

    pub fn replayed_and_lost(&self) -> (u64, u64) {
        (self.as_flusher().replayed(), self.as_flusher().lost())
    }

    /// A process that repeatedly pauses and folds.
    pub fn folder(name: &str, wire: &Wire, folder: TestFolder) -> Self {
        let own = wire.clone();
        Self::new(name, wire, async move {
            loop {
                own.pause().await;
                let _ = folder.fold().await;
            }
        })
    }

    fn new(name: &str, wire: &Wire, future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            name: name.to_owned(),
            wire: wire.clone(),
            flusher: None,
            future: Box::pin(future),
        }
    }

    pub fn is_waiting(&self) -> bool {
        self.wire.slot().request.is_some()
    }

    /// Takes the call that the process waits for. The caller decides whether the call reaches the store.
    pub fn take_request(&self) -> Option<Request> {
        self.wire.slot().request.take()
    }

    pub fn answer(&self, reply: Result<Reply, StoreError>) {
        let mut slot = self.wire.slot();
        (slot.request, slot.reply) = (None, Some(reply));
    }

    /// Runs until the process waits for an answer or pauses. Returns `false` if the process has ended.
    pub fn resume(&mut self, sleep: &Sleep) -> bool {
        self.wire.slot().is_paused = false;
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        for _ in 0..MAX_POLLS {
            {
                let _in_time = sleep.0.enter();
                let poll = self.future.as_mut().poll(&mut Context::from_waker(&waker));
                if poll == Poll::Ready(()) {
                    return false;
                }
            }
            let has_stopped = {
                let slot = self.wire.slot();
                slot.is_paused || slot.request.is_some()
            };
            if has_stopped {
                return true;
            }
            if !woken.0.swap(false, Ordering::SeqCst) {
                sleep
                    .0
                    .block_on(tokio::time::advance(Duration::from_millis(20)));
            }
        }
        panic!("{} makes no call in {MAX_POLLS} polls", self.name);
    }
}
