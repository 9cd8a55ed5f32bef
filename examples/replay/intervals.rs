//! The intervals at which a log is drained. An interval is as long as the shortest slice that is still stored at the
//! end of the log.
//!
//! A drain adds everything that was recorded since the previous drain to the slices of one second. In the last hours of
//! a log, each second has its own drain, as in a service. In older hours, slices of a second or a minute would be
//! removed before the last line is read. So there, all lines of half an hour, or of five minutes, are drained at once.
//! In the end, the same slices are stored.

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
/// The longest interval. All other intervals divide this length, and this length divides all longer precisions and
/// tiers. The length of intervals changes only at a multiple of this length.
const LONGEST: i64 = 1_800;
/// The time for which the 300-second slices of counters are stored.
const FIVE_MINUTES_FOR: i64 = 120 * 300;
/// The time for which records of minutes are stored. Counters store their minutes for a shorter time.
const MINUTES_FOR: i64 = 130 * MINUTE;
/// The hours before the current hour for which slow and failed requests are stored, each with the time of its end.
const LISTED_HOURS: i64 = 2;
/// The time before the first judged minute that the detector also reads.
const RECALLED: i64 = 90 * MINUTE;

#[derive(Debug)]
pub(crate) struct Intervals {
    /// From this second on, an interval is five minutes; before this second, half an hour.
    five_minutes_from: i64,
    /// From this second on, an interval is a minute.
    minutes_from: i64,
    seconds_from: i64,
}

impl Intervals {
    /// The intervals of a log whose last second is `last`.
    pub(crate) fn until(last: i64) -> Self {
        let seconds_from = (last - MINUTES_FOR).min(start(last, HOUR) - LISTED_HOURS * HOUR);
        let seconds_from = start(seconds_from, LONGEST);
        Self {
            five_minutes_from: start(last - FIVE_MINUTES_FOR, LONGEST).min(seconds_from),
            minutes_from: seconds_from,
            seconds_from,
        }
    }

    /// Shortens the intervals for a log in which each minute from `second` on is judged at its end.
    pub(crate) fn shorten_from(&mut self, second: i64) {
        let from = start(second.saturating_sub(RECALLED), LONGEST);
        self.minutes_from = self.minutes_from.min(from);
    }

    /// The start of the interval of a second, and its length.
    pub(crate) fn interval_of(&self, second: i64) -> (i64, i64) {
        let seconds = match second {
            _ if second >= self.seconds_from => 1,
            _ if second >= self.minutes_from => MINUTE,
            _ if second >= self.five_minutes_from => 5 * MINUTE,
            _ => LONGEST,
        };
        (start(second, seconds), seconds)
    }
}

fn start(second: i64, width: i64) -> i64 {
    second.div_euclid(width) * width
}
