//! The time source of this crate: a wall clock for slices and hours, a monotonic clock for durations and sleeping.
//! Tests move a [`Clock::manual`] by hand, so that an hour passes without waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

/// The time source of a `Pulse`. Cheap to clone.
///
/// ```
/// # use tower_pulse_core::clock as tower_pulse;
/// use std::time::Duration;
/// use tower_pulse::Clock;
///
/// let (clock, manual) = Clock::manual(1_336_376_410);
/// assert_eq!(clock.now_seconds(), 1_336_376_410);
/// manual.advance(Duration::from_secs(3_600));
/// assert_eq!(clock.now_seconds(), 1_336_380_010);
/// ```
#[derive(Clone, Debug)]
pub struct Clock {
    /// The monotonic clock. Each request reads it at least twice.
    ticks: quanta::Clock,
    /// The nanoseconds of 2^[`SCALE`] ticks.
    nanos_of_scale: u64,
    /// The time of a manual clock, which replaces the wall clock.
    manual: Option<Arc<watch::Sender<Manual>>>,
    /// The [origin](Clock::origin) of the store's time while that time replaces the wall clock; otherwise
    /// [`NOT_FOLLOWED`]. `None` in a clock that never follows a store.
    followed: Option<Arc<AtomicI64>>,
}

const NOT_FOLLOWED: i64 = i64::MIN;

#[derive(Clone, Copy, Debug)]
struct Manual {
    /// Wall time in nanoseconds since the Unix epoch.
    wall: i64,
    /// Monotonic time: nanoseconds since the clock was made. Never decreases.
    elapsed: u64,
}

/// Ticks become nanoseconds by a multiplication and a shift by `SCALE` bits. The factor, the nanoseconds of 2^`SCALE`
/// ticks, is rounded to an integer. A day has fewer than 2^49 ticks on any CPU, so the rounding changes a duration of a
/// day by less than a microsecond.
const SCALE: u32 = 40;

/// A moment of the monotonic clock. Only the time between two moments has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(u64);

impl Tick {
    /// Ticks until `end`; 0 if `end` is not later.
    #[inline]
    pub(crate) fn ticks_until(self, end: Self) -> u64 {
        end.0.saturating_sub(self.0)
    }
}

/// Moves the time of a [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ManualClock {
    manual: Arc<watch::Sender<Manual>>,
    ticks: Arc<quanta::Mock>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl Clock {
    /// The clocks of the machine. The first call in a process calibrates the CPU's time stamp counter, which takes a
    /// few milliseconds.
    pub fn system() -> Self {
        Self::new(quanta::Clock::new(), None)
    }

    fn new(ticks: quanta::Clock, manual: Option<Arc<watch::Sender<Manual>>>) -> Self {
        Self {
            nanos_of_scale: ticks.delta_as_nanos(0, 1 << SCALE),
            ticks,
            manual,
            followed: None,
        }
    }

    /// A clock that can follow a store's time. A call of [`follow`](Self::follow) affects all clones of the returned
    /// clock.
    pub(crate) fn following(self) -> Self {
        let followed = Some(Arc::new(AtomicI64::new(NOT_FOLLOWED)));
        Self { followed, ..self }
    }

    /// Replaces the wall clock by the time with this [`origin`](Self::origin). With `None`, uses the wall clock again.
    pub(crate) fn follow(&self, origin: Option<i64>) {
        if let Some(followed) = &self.followed {
            followed.store(origin.unwrap_or(NOT_FOLLOWED), Ordering::SeqCst);
        }
    }

    /// The origin of the store's time, if that time replaces the wall clock.
    pub(crate) fn followed(&self) -> Option<i64> {
        let origin = self.followed.as_ref()?.load(Ordering::Relaxed);
        (origin != NOT_FOLLOWED).then_some(origin)
    }

    /// The wall time at which the monotonic clock was 0, if the wall time is `nanos` now.
    pub(crate) fn origin(&self, nanos: i64) -> i64 {
        nanos.saturating_sub_unsigned(self.nanos_of(self.tick().0))
    }

    /// The current wall time of a clock with this [`origin`](Self::origin), in nanoseconds since the Unix epoch.
    pub(crate) fn nanos_since(&self, origin: i64) -> i64 {
        origin.saturating_add_unsigned(self.nanos_of(self.tick().0))
    }

    /// A clock that is fixed at `unix_seconds` until its [`ManualClock`] moves it.
    pub fn manual(unix_seconds: i64) -> (Self, ManualClock) {
        let now = Manual {
            wall: unix_seconds.saturating_mul(1_000_000_000),
            elapsed: 0,
        };
        let manual = Arc::new(watch::Sender::new(now));
        let (clock, ticks) = quanta::Clock::mock();
        let clock = Self::new(clock, Some(manual.clone()));
        (clock, ManualClock { manual, ticks })
    }

    /// Whether this clock is moved by a [`ManualClock`].
    #[doc(hidden)]
    pub fn is_manual(&self) -> bool {
        self.manual.is_some()
    }

    /// Wall time in whole seconds since the Unix epoch, rounded down.
    pub fn now_seconds(&self) -> i64 {
        self.now_nanos().div_euclid(1_000_000_000)
    }

    /// Wall time in nanoseconds since the Unix epoch.
    #[doc(hidden)]
    pub fn now_nanos(&self) -> i64 {
        match self.followed() {
            None => self.wall_nanos(),
            Some(origin) => self.nanos_since(origin),
        }
    }

    /// Time of the wall clock in nanoseconds since the Unix epoch, even while [`now_nanos`](Self::now_nanos) follows a
    /// store.
    pub(crate) fn wall_nanos(&self) -> i64 {
        match &self.manual {
            None => match SystemTime::now().duration_since(UNIX_EPOCH) {
                Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
                Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
            },
            Some(manual) => manual.borrow().wall,
        }
    }

    /// The monotonic clock, for durations.
    #[inline]
    #[doc(hidden)]
    pub fn tick(&self) -> Tick {
        Tick(self.ticks.raw())
    }

    /// Nanoseconds from `start` to `end`; 0 when `end` is before `start`.
    #[inline]
    #[doc(hidden)]
    pub fn nanos_between(&self, start: Tick, end: Tick) -> u64 {
        self.nanos_of(start.ticks_until(end))
    }

    #[inline]
    pub(crate) fn nanos_of(&self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks);
        // A fixed shift takes a third of the instructions of quanta's own conversion.
        ((ticks * u128::from(self.nanos_of_scale)) >> SCALE) as u64
    }

    /// The time from `start` until now.
    #[doc(hidden)]
    pub fn since(&self, start: Tick) -> Duration {
        Duration::from_nanos(self.nanos_between(start, self.tick()))
    }

    /// Returns once `duration` has passed on this clock.
    ///
    /// Cancel safe: dropping the future has no effect.
    #[doc(hidden)]
    pub async fn sleep(&self, duration: Duration) {
        match &self.manual {
            None => tokio::time::sleep(duration).await,
            Some(manual) => {
                let mut receiver = manual.subscribe();
                let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
                let until = receiver.borrow().elapsed.saturating_add(nanos);
                // The wait cannot fail, because this clock owns the sender.
                let _ = receiver.wait_for(|now| now.elapsed >= until).await;
            }
        }
    }
}

impl ManualClock {
    /// Moves wall time and monotonic time forward by the same duration.
    pub fn advance(&self, duration: Duration) {
        self.ticks.increment(duration);
        self.manual.send_modify(|now| {
            let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            now.elapsed = now.elapsed.saturating_add(nanos);
            now.wall = now.wall.saturating_add_unsigned(nanos);
        });
    }

    /// Sets the wall clock, forward or back, as an administrator or NTP does. Monotonic time and durations are
    /// unaffected.
    pub fn set_wall(&self, unix_seconds: i64) {
        self.manual
            .send_modify(|now| now.wall = unix_seconds.saturating_mul(1_000_000_000));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn durations_are_monotonic_and_in_nanoseconds() {
        let clock = Clock::system();
        let (start, reference) = (clock.tick(), std::time::Instant::now());
        while reference.elapsed() < Duration::from_millis(5) {}
        let nanos = clock.nanos_between(start, clock.tick());
        assert!(nanos >= 4_900_000, "{nanos} ns for 5 ms");
        assert_eq!(clock.nanos_between(clock.tick(), start), 0);
    }

    #[tokio::test]
    async fn a_manual_sleep_ends_when_the_clock_has_moved_far_enough() {
        let (clock, manual) = Clock::manual(0);
        let mut sleep = pin!(clock.sleep(Duration::from_secs(60)));
        assert!(sleep.as_mut().now_or_never().is_none());
        manual.set_wall(1_000_000);
        manual.advance(Duration::from_secs(59));
        assert!(sleep.as_mut().now_or_never().is_none());
        manual.advance(Duration::from_secs(1));
        sleep.await;
        assert_eq!(clock.now_seconds(), 1_000_060);
    }
}
