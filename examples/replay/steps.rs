//! How finely a log is drained: as finely as anybody can see it at its end.
//!
//! A drain adds all that was recorded since the one before to the slices of one second. Of the last hours of a log, each
//! second has a drain of its own, as in a service. Of older ones nobody can see a second, nor a minute, whatever is
//! stored: the slices have left their retention before the last line is read. So all lines of half an hour, or of five
//! minutes, are drained at once, and the slices that are left are the same.

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
/// The longest step. All others divide it, and each kind of step begins and ends with one of these. It divides the slices
/// of all longer precisions and tiers.
const LONGEST: i64 = 1_800;
/// For how long counters by 300 seconds are stored.
const FIVE_MINUTES_FOR: i64 = 120 * 300;
/// For how long records by the minute are stored, and more than counters by the minute are.
const MINUTES_FOR: i64 = 130 * MINUTE;
/// Hours before the current one of which slow and failed requests are stored, each with its time.
const LISTED_HOURS: i64 = 2;
/// For how long before the first minute that is judged the detector looks at minutes.
const RECALLED: i64 = 90 * MINUTE;

/// The lengths of the steps of a log.
#[derive(Debug)]
pub(crate) struct Steps {
    /// From then on five minutes are a step; before, it is half an hour.
    five_minutes_from: i64,
    /// From then on a minute is a step.
    minutes_from: i64,
    /// From then on a second is a step.
    seconds_from: i64,
}

impl Steps {
    /// Those of a log whose last second is `last`.
    pub(crate) fn until(last: i64) -> Self {
        let seconds_from = (last - MINUTES_FOR).min(start(last, HOUR) - LISTED_HOURS * HOUR);
        let seconds_from = start(seconds_from, LONGEST);
        Self {
            five_minutes_from: start(last - FIVE_MINUTES_FOR, LONGEST).min(seconds_from),
            minutes_from: seconds_from,
            seconds_from,
        }
    }

    /// The same, where each minute from `second` on is judged at its end.
    pub(crate) fn judged_from(&mut self, second: i64) {
        let from = start(second.saturating_sub(RECALLED), LONGEST);
        self.minutes_from = self.minutes_from.min(from);
    }

    /// The start of the step of a second, and its length.
    pub(crate) fn step(&self, second: i64) -> (i64, i64) {
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
