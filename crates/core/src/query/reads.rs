//! Reads of the store, each asked at most once a second and by one task at a time, for all that wait for its answer.

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

/// Age up to which an answer of the store is served again.
const FRESH: Duration = Duration::from_secs(1);

/// Maximum number of keys of a kind whose answers are cached. Others are read each time.
const MAX_KEYS: usize = 64;

/// Bytes of the texts of an item in a list.
pub(super) const PER_TEXT: usize = 200;

/// An answer of any type, and its bytes.
type Answer = Result<(Arc<dyn Any + Send + Sync>, usize), QueryError>;

/// The reads, with their last answers.
pub(super) struct Reads {
    clock: Clock,
    /// The most bytes of the answers of each [share](Key::share).
    most_bytes: [usize; 3],
    flights: Mutex<HashMap<Key, Flight>>,
}

/// A read with its last answer. The task whose turn it is asks the store; the others wait for their turn and use its
/// answer.
#[derive(Default)]
struct Flight {
    turn: Arc<AsyncMutex<()>>,
    last: Option<Answered>,
}

struct Answered {
    at: Tick,
    wall: i64,
    answer: Answer,
}

impl Answered {
    /// Whether the answer may be served again at this age. An error is never served for longer than a second. An answer
    /// is not served after a jump of the wall clock, which may be in another hour now.
    fn is_fresh(&self, clock: &Clock, age: Duration) -> bool {
        let age = if self.answer.is_ok() { age } else { FRESH };
        let wall = clock.now_seconds().saturating_sub(self.wall);
        // The clock gives whole seconds, so the difference may be a second too large.
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

    /// The last answer to `key` if its age allows that, or else a new one, which takes about so many bytes: 0 if the key
    /// has no share. Waiting for the turn and for the store takes no longer than the deadline together. A key has answers
    /// of one type.
    ///
    /// Cancel safe: another waiting task reads instead.
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
            // Each key is given in one place, with a read of one type.
            Ok(answer.downcast().expect("a key has answers of one type"))
        }
    }

    /// The same of a list, whose items take about so many bytes beside themselves and some texts.
    pub(super) fn list<'a, T: Send + Sync + 'static, E: Into<QueryError>>(
        &'a self,
        key: Key,
        beside: fn(&T) -> usize,
        read: impl Future<Output = Result<Vec<T>, E>> + Send + 'a,
    ) -> impl Future<Output = Result<Arc<Vec<T>>, QueryError>> + 'a {
        self.get(key, move |of: &Vec<T>| bytes_of(of, beside), read)
    }

    // The future exists once, for the answers of all types.
    #[inline(never)]
    fn answer<'a>(&'a self, key: Key, read: BoxFuture<'a, Answer>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let mut deadline = pin!(self.clock.sleep(DEADLINE));
            let turn = self.turn(&key);
            let _turn = tokio::select! {
                biased;
                turn = turn.lock() => turn,
                () = &mut deadline => return Err(QueryError::Unanswered),
            };
            if let Some(answer) = self.fresh_answer(&key) {
                return answer;
            }
            // An answer that asks for several others lets others run in between.
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

    /// The turn of a read. Answers that are not fresh any more are removed.
    fn turn(&self, key: &Key) -> Arc<AsyncMutex<()>> {
        let mut flights = lock(&self.flights);
        flights.retain(|other, flight| {
            let last = flight.last.as_ref();
            other == key
                || Arc::strong_count(&flight.turn) > 1
                || last.is_some_and(|last| last.is_fresh(&self.clock, other.age()))
        });
        let is_alike = |other: &&Key| discriminant(*other) == discriminant(key);
        if !flights.contains_key(key) && flights.keys().filter(is_alike).count() >= MAX_KEYS {
            return Arc::default();
        }
        flights.entry(key.clone()).or_default().turn.clone()
    }

    fn fresh_answer(&self, key: &Key) -> Option<Answer> {
        let flights = lock(&self.flights);
        let last = flights.get(key)?.last.as_ref()?;
        last.is_fresh(&self.clock, key.age())
            .then(|| last.answer.clone())
    }

    /// Holds an answer instead of the last one, unless there is no room for it. Answers that are served for longer than
    /// others make room.
    fn hold(&self, key: &Key, answer: &Answer) {
        let answered = Answered {
            at: self.clock.tick(),
            wall: self.clock.now_seconds(),
            answer: answer.clone(),
        };
        let (share, mut flights) = (key.share(), lock(&self.flights));
        let mut has_room = |is_dropped: &dyn Fn(&Key, &mut Answered) -> bool| {
            let mut taken = answered.bytes();
            for (other, flight) in &mut *flights {
                if other.share() == share {
                    flight.last.take_if(|last| is_dropped(other, last));
                    taken += flight.last.as_ref().map_or(0, Answered::bytes);
                }
            }
            taken <= self.most_bytes[share]
        };
        let is_old = |last: &Answered| last.bytes() > 0 && !last.is_fresh(&self.clock, FRESH);
        if (has_room(&|other, _| other == key) || has_room(&|_, last| is_old(last)))
            && let Some(flight) = flights.get_mut(key)
        {
            flight.last = Some(answered);
        }
    }

    /// Forgets the last answer, also that of a task whose turn it is.
    pub(super) async fn forget(&self, key: Key) {
        let turn = self.turn(&key);
        let _turn = turn.lock().await;
        if let Some(flight) = lock(&self.flights).get_mut(&key) {
            flight.last = None;
        }
    }

    /// Waits for a read whose answer is not held, but no longer than the deadline.
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

/// Bytes of the items of a list: each with some texts, and what it has beside them.
pub(super) fn bytes_of<T>(answer: &[T], beside: fn(&T) -> usize) -> usize {
    let texts = answer.len() * (size_of::<T>() + PER_TEXT);
    texts + answer.iter().map(beside).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use super::*;
    use crate::clock::ManualClock;
    use tower_pulse_model::tiers::Tiers;

    fn reads(most_bytes: usize) -> (Reads, ManualClock) {
        let (clock, manual) = Clock::manual(1_000_000);
        (Reads::new(clock, [most_bytes; 3]), manual)
    }

    async fn is_pending<T>(mut future: Pin<&mut impl Future<Output = T>>) -> bool {
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
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
    async fn all_that_wait_have_one_answer_until_it_is_a_second_old() {
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
    async fn the_next_one_reads_if_the_one_that_reads_is_dropped() {
        let ((reads, _), count) = (reads(9_999), AtomicUsize::new(0));
        let mut first = Box::pin(reads.get(
            key("a"),
            |_: &Tiers| 0,
            pending::<Result<Tiers, QueryError>>(),
        ));
        for _ in 0..3 {
            assert!(is_pending(first.as_mut()).await);
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
        assert!(is_pending(pin!(silent())).await);
    }

    #[tokio::test]
    async fn no_more_is_held_than_there_is_room_for() {
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

    #[tokio::test]
    async fn keys_are_bounded() {
        let ((reads, _), count) = (reads(usize::MAX), AtomicUsize::new(0));
        for n in 0..2 * MAX_KEYS {
            read(&reads, key(&n.to_string()), &count).await;
        }
        assert_eq!(lock(&reads.flights).len(), MAX_KEYS);
    }
}
