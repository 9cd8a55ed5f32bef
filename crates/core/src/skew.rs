//! The wall clock of this process beside that of its store, which is one for all instances.

use std::sync::Mutex;

use crate::clock::Clock;
use crate::condition::{Condition, Warning};
use crate::task::lock;

const SECOND: i64 = 1_000_000_000;
/// Seconds of skew from which on it is told. Below it, a clock is right again.
pub const TOLD: i64 = 60;
/// Seconds of skew beyond which a process goes on by the time of its store: samples of later than that are refused.
const FOLLOWED: i64 = 3_600;
/// How many answers in a row must say the same before the time is another.
const AGREEING: u32 = 2;
/// The most nanoseconds from sending to the answer: one that took longer, or in which the clock was set, says nothing.
const LONGEST_ANSWER: i64 = 10 * SECOND;

/// The time of a store that other processes use as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreTime {
    /// Nanoseconds since the Unix epoch.
    pub nanos: i64,
    /// Whether it is the time of a manual clock, which says nothing about that of a machine, nor the other way round.
    pub is_manual: bool,
}

/// A clock of a process whose store is on another machine. It is the given one until a [`Skew`] says otherwise.
pub fn following(clock: Clock) -> Clock {
    clock.following()
}

/// How far the wall clock of this process is from that of its store.
#[derive(Debug, Default)]
pub struct Skew(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    seconds: Option<i64>,
    /// The start of the monotonic clock, by the last answer.
    origin: i64,
    /// Answers in a row by which the time should be another.
    agreeing: u32,
}

impl Skew {
    /// Takes note of an answer to what was sent at `sent`, by the wall clock. Returns what `Clock::follow` is to be
    /// called with, if the time is to be another from now on.
    pub fn note(&self, clock: &Clock, sent: i64, time: Option<StoreTime>) -> Option<Option<i64>> {
        let took = clock.wall_nanos().saturating_sub(sent);
        let time = time.filter(|time| time.is_manual == clock.is_manual())?;
        if took.saturating_abs() > LONGEST_ANSWER {
            return None;
        }
        let skew = sent.saturating_add(took / 2).saturating_sub(time.nanos);
        let seconds = skew.saturating_add(SECOND / 2).div_euclid(SECOND);
        let origin = clock.origin(time.nanos.saturating_add(took / 2));
        let mut state = lock(&self.0);
        (state.seconds, state.origin) = (Some(seconds), origin);
        let turn = match clock.followed() {
            None => (seconds.abs() > FOLLOWED).then_some(Some(origin)),
            Some(_) if seconds.abs() < TOLD => Some(None),
            Some(followed) => {
                (followed.saturating_sub(origin).saturating_abs() > SECOND).then_some(Some(origin))
            }
        };
        state.agreeing = turn.map_or(0, |_| state.agreeing + 1);
        turn.filter(|_| state.agreeing >= AGREEING)
    }

    /// How many seconds the wall clock is ahead, as of the last answer; `None` before the first.
    pub fn seconds(&self) -> Option<i64> {
        lock(&self.0).seconds
    }

    /// The time that other processes are told, in Unix seconds: the clock's, unless that is wrong.
    pub fn now_seconds(&self, clock: &Clock) -> i64 {
        let state = lock(&self.0);
        match state.seconds {
            Some(seconds) if seconds.abs() >= TOLD => {
                clock.nanos_since(state.origin).div_euclid(SECOND)
            }
            _ => clock.now_seconds(),
        }
    }
}

/// What to do about the clock of `whose` process, unless it is right.
pub fn skew_warning(whose: &str, seconds: Option<i64>) -> Option<Warning> {
    let seconds = seconds.filter(|seconds| seconds.abs() >= TOLD)?;
    let way = if seconds > 0 { "ahead of" } else { "behind" };
    let minutes = (seconds.abs() + 30) / 60;
    let hours = minutes / 60;
    let apart = match hours {
        0 => format!("{minutes} min"),
        ..24 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    };
    let meanwhile = match seconds.abs() > FOLLOWED {
        true => {
            "it goes on by the store's time; what was recorded before that is missing, or shown at a wrong time"
        }
        false => "what it records and shows is at a time that is wrong by as much",
    };
    Some(Condition::Clock.warning(format!(
        "the clock of {whose} is {apart} {way} the store's; set it (NTP); until then {meanwhile}"
    )))
}
