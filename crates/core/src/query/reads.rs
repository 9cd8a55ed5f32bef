//! Cached reads of the store. For each key, one task at a time reads the store. All tasks share the answer for
//! [`Key::max_age`], if the cache has room.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::mem::discriminant;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::task::yield_now;

use super::error::{DEADLINE, QueryError};
use super::key::Key;
use crate::clock::{Clock, Tick};
use crate::task::{BoxFuture, lock};

/// The age up to which an error is reused. To make room, older answers are dropped.
const FRESH: Duration = Duration::from_secs(1);

/// The maximum number of cached keys of each variant of [`Key`]. Reads with further keys are not cached.
const MAX_KEYS: usize = 64;

/// Approximate bytes of all strings of an item in a list.
pub(super) const PER_TEXT: usize = 200;

/// An answer of any type, and its size in bytes.
type Answer = Result<(Arc<dyn Any + Send + Sync>, usize), QueryError>;

pub(super) struct Reads {
    clock: Clock,
    /// The maximum bytes of the answers of each [group](Key::group).
    most_bytes: [usize; 3],
    flights: Mutex<HashMap<Key, Flight>>,
}

/// The read of a key, with its last answer. The task that holds `mutex` asks the store. Other tasks wait for the mutex,
/// and reuse the answer.
#[derive(Default)]
struct Flight {
    mutex: Arc<AsyncMutex<()>>,
    last: Option<Answered>,
}

struct Answered {
    at: Tick,
    wall: i64,
    answer: Answer,
}

impl Answered {
    /// Whether the answer may be reused up to this age. An error is reused for at most a second. An answer from before
    /// a jump of the wall clock is not reused, because the new time may be in another hour.
    fn is_fresh(&self, clock: &Clock, age: Duration) -> bool {
        let age = if self.answer.is_ok() { age } else { FRESH };
        let wall = clock.now_seconds().saturating_sub(self.wall);
        // The clock gives whole seconds, so the difference may be one second too large.
        clock.since(self.at) < age && (0..=1 + age.as_secs() as i64).contains(&wall)
    }

    fn bytes(&self) -> usize {
        self.answer.as_ref().map_or(0, |(_, bytes)| *bytes)
    }
}

impl Reads {
    pub(super) fn new(clock: Clock, most_bytes: [usize; 3]) -> Self {
        Self {
            clock,
            most_bytes,
            flights: Mutex::default(),
        }
    }

    /// Approximate bytes of the cached answers, without answers whose size needs no bound.
    pub(super) fn bytes(&self) -> usize {
        let flights = lock(&self.flights);
        let last = flights.values().filter_map(|flight| flight.last.as_ref());
        last.map(Answered::bytes).sum()
    }

    /// Returns the last answer to `key` if it is fresh, or a new answer. `bytes` computes the approximate size of an
    /// answer; 0 if the size needs no bound. The waits for the mutex and for the store together take at most
    /// [`DEADLINE`]. All answers to a key must have the same type.
    ///
    /// Cancel safe: another waiting task then makes the read.
    pub(super) fn get<'a, T: Send + Sync + 'static, A: Into<Arc<T>>, E: Into<QueryError>>(
        &'a self,
        key: Key,
        bytes: impl FnOnce(&T) -> usize + Send + 'a,
        read: impl Future<Output = Result<A, E>> + Send + 'a,
    ) -> impl Future<Output = Result<Arc<T>, QueryError>> + 'a {
        let read = Box::pin(async move {
            let answer: Arc<T> = read.await.map_err(Into::into)?.into();
            let bytes = bytes(&answer);
            Ok((answer as Arc<dyn Any + Send + Sync>, bytes))
        });
        let answer = self.answer(key, read);
        async {
            let (answer, _) = answer.await?;
            // Each key is used in one place, with a read of one type.
            Ok(answer.downcast().expect("a key has answers of one type"))
        }
    }

    /// Like [`get`](Self::get), for a list. `beside` computes the size of an item's heap memory other than strings.
    pub(super) fn list<'a, T: Send + Sync + 'static, E: Into<QueryError>>(
        &'a self,
        key: Key,
        beside: fn(&T) -> usize,
        read: impl Future<Output = Result<Vec<T>, E>> + Send + 'a,
    ) -> impl Future<Output = Result<Arc<Vec<T>>, QueryError>> + 'a {
        self.get(key, move |list: &Vec<T>| bytes_of(list, beside), read)
    }

    // The future is compiled once for the answers of all types.
    #[inline(never)]
    fn answer<'a>(&'a self, key: Key, read: BoxFuture<'a, Answer>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let mut deadline = pin!(self.clock.sleep(DEADLINE));
            let mutex = self.mutex_of(&key);
            let _guard = tokio::select! {
                biased;
                guard = mutex.lock() => guard,
                () = &mut deadline => return Err(QueryError::Unanswered),
            };
            if let Some(answer) = self.fresh_answer(&key) {
                return answer;
            }
            // Lets other tasks run between the reads of an answer that needs several reads.
            yield_now().await;
            let answer = tokio::select! {
                biased;
                answer = read => answer,
                () = deadline => Err(QueryError::Unanswered),
            };
            self.hold(&key, &answer);
            yield_now().await;
            answer
        })
    }

    /// The mutex of a key. Removes the answers of other keys that are not fresh.
    fn mutex_of(&self, key: &Key) -> Arc<AsyncMutex<()>> {
        let mut flights = lock(&self.flights);
        flights.retain(|other, flight| {
            let last = flight.last.as_ref();
            other == key
                || Arc::strong_count(&flight.mutex) > 1
                || last.is_some_and(|last| last.is_fresh(&self.clock, other.max_age()))
        });
        let is_alike = |other: &&Key| discriminant(*other) == discriminant(key);
        if !flights.contains_key(key) && flights.keys().filter(is_alike).count() >= MAX_KEYS {
            return Arc::default();
        }
        flights.entry(key.clone()).or_default().mutex.clone()
    }

    fn fresh_answer(&self, key: &Key) -> Option<Answer> {
        let flights = lock(&self.flights);
        let last = flights.get(key)?.last.as_ref()?;
        last.is_fresh(&self.clock, key.max_age())
            .then(|| last.answer.clone())
    }

    /// Replaces the cached answer of a key by a new answer, if there is room. To make room, drops answers of the same
    /// group that are older than [`FRESH`].
    fn hold(&self, key: &Key, answer: &Answer) {
        let answered = Answered {
            at: self.clock.tick(),
            wall: self.clock.now_seconds(),
            answer: answer.clone(),
        };
        let (group, mut flights) = (key.group(), lock(&self.flights));
        let mut has_room = |is_dropped: &dyn Fn(&Key, &mut Answered) -> bool| {
            let mut taken = answered.bytes();
            for (other, flight) in &mut *flights {
                if other.group() == group {
                    flight.last.take_if(|last| is_dropped(other, last));
                    taken += flight.last.as_ref().map_or(0, Answered::bytes);
                }
            }
            taken <= self.most_bytes[group]
        };
        let is_old = |last: &Answered| last.bytes() > 0 && !last.is_fresh(&self.clock, FRESH);
        if (has_room(&|other, _| other == key) || has_room(&|_, last| is_old(last)))
            && let Some(flight) = flights.get_mut(key)
        {
            flight.last = Some(answered);
        }
    }

    /// Waits for the read of a key that is in progress, and then forgets its last answer.
    pub(super) async fn forget(&self, key: Key) {
        let mutex = self.mutex_of(&key);
        let _guard = mutex.lock().await;
        if let Some(flight) = lock(&self.flights).get_mut(&key) {
            flight.last = None;
        }
    }

    /// Waits for a read that is not cached, at most until the deadline.
    pub(super) async fn within<T>(
        &self,
        read: BoxFuture<'_, Result<T, QueryError>>,
    ) -> Result<T, QueryError> {
        tokio::select! {
            biased;
            answer = read => answer,
            () = self.clock.sleep(DEADLINE) => Err(QueryError::Unanswered),
        }
    }
}

/// Approximate bytes of a list. An item takes its own size, the bytes of its strings, and the bytes that `beside`
/// computes.
pub(super) fn bytes_of<T>(answer: &[T], beside: fn(&T) -> usize) -> usize {
    let texts = answer.len() * (size_of::<T>() + PER_TEXT);
    texts + answer.iter().map(beside).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::*;
    use crate::clock::ManualClock;
    use tower_pulse_model::tiers::Tiers;

    fn reads(most_bytes: usize) -> (Reads, ManualClock) {
        let (clock, manual) = Clock::manual(1_000_000);
        (Reads::new(clock, [most_bytes; 3]), manual)
    }

    fn key(name: &str) -> Key {
        Key::Contexts(name.to_owned())
    }

    async fn read(reads: &Reads, key: Key, count: &AtomicUsize) -> Arc<Vec<String>> {
        let read = async {
            count.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
            Ok::<_, QueryError>(vec!["a".to_owned()])
        };
        reads.list(key, |_| 0, read).await.expect("it is read")
    }

    #[tokio::test]
    async fn waiting_callers_share_an_answer_for_a_second() {
        let ((reads, manual), count) = (reads(9_999), AtomicUsize::new(0));
        let asked = || read(&reads, key("a"), &count);
        let (first, second) = tokio::join!(asked(), asked());
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &read(&reads, key("b"), &count).await));
        manual.advance(FRESH);
        assert!(!Arc::ptr_eq(&first, &asked().await));
        reads.forget(key("a")).await;
        asked().await;
        assert_eq!(count.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn a_waiting_caller_reads_if_the_reading_caller_is_dropped() {
        let ((reads, _), count) = (reads(9_999), AtomicUsize::new(0));
        let silent = pending::<Result<Tiers, QueryError>>();
        let mut first = Box::pin(reads.get(key("a"), |_: &Tiers| 0, silent));
        for _ in 0..3 {
            assert!(first.as_mut().now_or_never().is_none());
        }
        let second = read(&reads, key("a"), &count);
        let dropped = async {
            yield_now().await;
            drop(first);
        };
        let (answer, ()) = tokio::join!(second, dropped);
        assert_eq!(*answer, ["a"]);
    }

    #[tokio::test]
    async fn an_error_and_silence_are_served_for_a_second() {
        let ((reads, manual), count) = (reads(9_999), AtomicUsize::new(0));
        let silent = || {
            let read = async {
                count.fetch_add(1, Ordering::Relaxed);
                pending::<Result<Tiers, QueryError>>().await
            };
            reads.get::<Tiers, _, _>(Key::Tiers, |_| 0, read)
        };
        let time = async {
            while count.load(Ordering::Relaxed) == 0 {
                yield_now().await;
            }
            manual.advance(DEADLINE);
        };
        let (first, second, ()) = tokio::join!(silent(), silent(), time);
        for answer in [first, second, silent().await] {
            assert!(matches!(answer, Err(QueryError::Unanswered)));
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        manual.advance(FRESH);
        assert!(silent().now_or_never().is_none());
    }

    #[tokio::test]
    async fn the_bytes_and_the_number_of_cached_answers_are_bounded() {
        let ((all, _), count) = (reads(usize::MAX), AtomicUsize::new(0));
        for n in 0..2 * MAX_KEYS {
            read(&all, key(&n.to_string()), &count).await;
        }
        assert_eq!(lock(&all.flights).len(), MAX_KEYS);
        let one = bytes_of(&["a".to_owned()], |_| 0);
        let ((reads, manual), count) = (reads(one), AtomicUsize::new(0));
        let first = read(&reads, key("a"), &count).await;
        for _ in 0..2 {
            read(&reads, key("b"), &count).await;
        }
        assert_eq!(count.load(Ordering::Relaxed), 3);
        assert!(Arc::ptr_eq(&first, &read(&reads, key("a"), &count).await));
        manual.advance(FRESH);
        let second = read(&reads, key("b"), &count).await;
        assert!(Arc::ptr_eq(&second, &read(&reads, key("b"), &count).await));
    }
}
