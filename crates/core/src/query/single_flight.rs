//! A question to the store, asked at most once a second and by one task at a time, for all that wait for its answer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, MutexGuard};
use tokio::task::yield_now;

use super::answer_bytes::{AnswerBytes, HeldBytes};
use super::error::{DEADLINE, QueryError};
use crate::clock::{Clock, Tick};
use crate::task::{BoxFuture, lock};

/// Age up to which an answer of the store is served again.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// Maximum number of keys of each [`SingleFlightMap`] whose answers are cached. Others are read each time.
const MAX_KEYS: usize = 64;

/// One question to the store, with its last answer. The task whose turn it is asks; the others wait for
/// their turn and use its answer.
pub(super) struct SingleFlight<T> {
    turn: AsyncMutex<()>,
    last: Mutex<Option<Answered<T>>>,
    /// The bound of what is held, and what an answer takes of it.
    bound: Option<AnswerBound<T>>,
}

/// The bound of the answers that are held, and how many bytes one takes.
type AnswerBound<T> = (Arc<AnswerBytes>, fn(&T) -> usize);

struct Answered<T> {
    at: Tick,
    wall: i64,
    answer: Result<T, QueryError>,
    _held: Option<HeldBytes>,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self {
            turn: AsyncMutex::default(),
            last: Mutex::new(None),
            bound: None,
        }
    }
}

impl<T> Answered<T> {
    /// Whether the answer may be served again. An error is never served for longer than a second. An answer
    /// is not served after a jump of the wall clock, which may be in another hour now.
    fn is_fresh(&self, clock: &Clock, age: Duration) -> bool {
        let age = if self.answer.is_ok() { age } else { FRESH };
        let wall = clock.now_seconds().saturating_sub(self.wall);
        // The clock gives whole seconds, so the difference may be a second too large.
        clock.since(self.at) < age && (0..=1 + age.as_secs() as i64).contains(&wall)
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Forgets the last answer, also that of a task whose turn it is.
    pub(super) async fn forget(&self) {
        let _turn = self.turn.lock().await;
        *lock(&self.last) = None;
    }

    /// Returns the last answer if it is not older than the `age` that such an answer may reach, or else a new
    /// one. Waiting for the turn and for the store takes no longer than the deadline together.
    ///
    /// Cancel safe: another waiting task asks instead.
    // The future is boxed so that its code exists once for all questions with answers of a type.
    pub(super) async fn get(
        &self,
        clock: &Clock,
        age: fn(&T) -> Duration,
        read: BoxFuture<'_, Result<T, QueryError>>,
    ) -> Result<T, QueryError> {
        let (_turn, remaining) = take_turn(&self.turn, clock).await?;
        if let Some(answer) = self.fresh_answer(clock, age) {
            return answer;
        }
        // An answer that asks for several others lets others run in between.
        yield_now().await;
        let answer = within(clock, remaining, read).await;
        // The room of the last answer is free for the next one.
        *lock(&self.last) = None;
        *lock(&self.last) = self.held(clock, &answer);
        yield_now().await;
        answer
    }

    /// An answer, to be served again; `None` if there is no room for it.
    fn held(&self, clock: &Clock, answer: &Result<T, QueryError>) -> Option<Answered<T>> {
        let held = match (&self.bound, answer) {
            (Some((bound, bytes)), Ok(answer)) => Some(bound.take(bytes(answer))?),
            _ => None,
        };
        Some(Answered {
            at: clock.tick(),
            wall: clock.now_seconds(),
            answer: answer.clone(),
            _held: held,
        })
    }

    fn fresh_answer(
        &self,
        clock: &Clock,
        age: fn(&T) -> Duration,
    ) -> Option<Result<T, QueryError>> {
        let last = lock(&self.last);
        let last = last.as_ref()?;
        let age = last.answer.as_ref().map_or(FRESH, age);
        last.is_fresh(clock, age).then(|| last.answer.clone())
    }

    /// Whether nobody asks and no answer is fresh.
    fn is_stale(&self, clock: &Clock) -> bool {
        let turn = self.turn.try_lock();
        turn.is_ok() && self.fresh_answer(clock, |_| FRESH).is_none()
    }
}

/// The same question for many keys. Answers that are not fresh any more are removed, and one for which there is no room
/// is not held.
pub(super) struct SingleFlightMap<K, T> {
    flights: Mutex<Vec<(K, Arc<SingleFlight<T>>)>>,
    bound: AnswerBound<T>,
}

impl<K: Eq, T: Clone> SingleFlightMap<K, T> {
    /// With a bound of the bytes that are held, and how many an answer takes.
    pub(super) fn new(bound: &Arc<AnswerBytes>, bytes: fn(&T) -> usize) -> Self {
        Self {
            flights: Mutex::default(),
            bound: (bound.clone(), bytes),
        }
    }

    pub(super) fn of(&self, clock: &Clock, key: K) -> Arc<SingleFlight<T>> {
        let mut flights = lock(&self.flights);
        flights.retain(|(other, flight)| {
            *other == key || Arc::strong_count(flight) > 1 || !flight.is_stale(clock)
        });
        if let Some((_, flight)) = flights.iter().find(|(other, _)| *other == key) {
            return flight.clone();
        }
        let new = Arc::new(SingleFlight {
            bound: Some(self.bound.clone()),
            ..SingleFlight::default()
        });
        if flights.len() < MAX_KEYS {
            flights.push((key, Arc::clone(&new)));
        }
        new
    }
}

/// Waits for the turn to ask. Returns what is left of the deadline then.
async fn take_turn<'a>(
    turn: &'a AsyncMutex<()>,
    clock: &Clock,
) -> Result<(MutexGuard<'a, ()>, Duration), QueryError> {
    let since = clock.tick();
    let turn = tokio::select! {
        biased;
        turn = turn.lock() => turn,
        () = clock.sleep(DEADLINE) => return Err(QueryError::Unanswered),
    };
    Ok((turn, DEADLINE.saturating_sub(clock.since(since))))
}

/// Waits for an answer of the store, but no longer than `limit`.
pub(super) async fn within<T>(
    clock: &Clock,
    limit: Duration,
    mut read: BoxFuture<'_, Result<T, QueryError>>,
) -> Result<T, QueryError> {
    let mut deadline = pin!(clock.sleep(limit));
    let poll = |cx: &mut Context<'_>| match read.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(answer),
        Poll::Pending => deadline
            .as_mut()
            .poll(cx)
            .map(|()| Err(QueryError::Unanswered)),
    };
    poll_fn(poll).await
}
