//! The difference between the wall clock of this process and the clock of the store, which all instances share.

use std::sync::Mutex;

use crate::clock::Clock;
use crate::condition::{Condition, Warning};
use crate::task::lock;

const SECOND: i64 = 1_000_000_000;
/// The smallest skew, in seconds, that causes a warning. A clock with less skew counts as right.
pub const WARNED_FROM: i64 = 60;
/// The skew, in seconds, above which a process follows the time of its store. The store refuses samples whose time is
/// further ahead.
const FOLLOWED: i64 = 3_600;
/// The number of successive answers that must call for a change before the clock is changed.
const AGREEING: u32 = 2;
/// The maximum wait for an answer, in nanoseconds. An answer with a longer wait is ignored. A clock that is set during
/// the wait makes the wait appear longer, or negative.
const LONGEST_ANSWER: i64 = 10 * SECOND;

/// The time of a store that other processes use too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreTime {
    /// The time in nanoseconds since the Unix epoch.
    pub nanos: i64,
    /// Whether the time is from a manual clock, which cannot be compared with the clock of a machine.
    pub is_manual: bool,
}

/// A clock for a process whose store may be on another machine. The returned clock has the time of `clock` until
/// `Clock::follow` replaces that time.
pub fn following(clock: Clock) -> Clock {
    clock.following()
}

/// The difference between the wall clock of this process and the clock of its store.
#[derive(Debug, Default)]
pub struct Skew(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    seconds: Option<i64>,
    /// The [origin](Clock::origin) of the store's time, according to the last answer.
    origin: i64,
    agreeing: u32,
}

impl Skew {
    /// Notes the store's `time` in the answer to a request that was sent at the wall time `sent`. Returns the argument
    /// for `Clock::follow` if the clock is to be changed now.
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
        let follow = match clock.followed() {
            None => (seconds.abs() > FOLLOWED).then_some(Some(origin)),
            Some(_) if seconds.abs() < WARNED_FROM => Some(None),
            Some(followed) => {
                (followed.saturating_sub(origin).saturating_abs() > SECOND).then_some(Some(origin))
            }
        };
        state.agreeing = follow.map_or(0, |_| state.agreeing + 1);
        follow.filter(|_| state.agreeing >= AGREEING)
    }

    /// Seconds by which the wall clock is ahead, according to the last answer; `None` before the first.
    pub fn seconds(&self) -> Option<i64> {
        lock(&self.0).seconds
    }

    /// The time for other processes, in Unix seconds: the clock's time or, if the clock is wrong, the store's time.
    pub fn now_seconds(&self, clock: &Clock) -> i64 {
        let state = lock(&self.0);
        match state.seconds {
            Some(seconds) if seconds.abs() >= WARNED_FROM => {
                clock.nanos_since(state.origin).div_euclid(SECOND)
            }
            _ => clock.now_seconds(),
        }
    }
}

/// A warning about the clock of a process; `None` if the clock is right. `seconds` is the skew.
pub fn skew_warning(process: &str, seconds: Option<i64>) -> Option<Warning> {
    let seconds = seconds.filter(|seconds| seconds.abs() >= WARNED_FROM)?;
    let direction = if seconds > 0 { "ahead of" } else { "behind" };
    let minutes = (seconds.abs() + 30) / 60;
    let hours = minutes / 60;
    let apart = match hours {
        0 => format!("{minutes} min"),
        ..24 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    };
    let meanwhile = match seconds.abs() > FOLLOWED {
        true => {
            "its process uses the store's time; earlier data is missing, or shown at a wrong time"
        }
        false => "the times of its data are wrong by as much",
    };
    Some(Condition::Clock.warning(format!(
        "the clock of {process} is {apart} {direction} the store's; set it (NTP); until then {meanwhile}"
    )))
}
