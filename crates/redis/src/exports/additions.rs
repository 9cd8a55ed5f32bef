//! Encodes a step's additions to counters and statistics, as keys and arguments of `exports.lua`. The head of the
//! script describes the arguments.

use crate::RedisStore;
use crate::script::{Invocation, or_empty};
use tower_pulse_core::store::additions::Additions;
use tower_pulse_model::slice::{Precision, hour_of, iso_hour};
use tower_pulse_model::slowest;

impl RedisStore {
    /// Encodes the part that all additions of a step share: keys 4 to 7, and arguments 9 to 11.
    pub(crate) fn begin_additions(&self, script: &mut Invocation, newest_at: i64) {
        let keys = &self.keys;
        script.key((keys.known(), keys.slowest()));
        script.key((keys.contexts(), keys.timers()));
        script.arg((iso_hour(hour_of(newest_at)), keys.count_prefix().len()));
        script.arg(slowest::RANKING_LEN);
    }

    pub(crate) fn encode_additions(&self, script: &mut Invocation, additions: &Additions) {
        for ((precision, slice), added) in additions.counters.iter() {
            let ttl = self.options.expire_idle_keys.then(|| precision.key_ttl());
            let renews = renews(*precision, *slice).then_some(1);
            script.arg((slice, precision.span(), or_empty(ttl)));
            script.arg((or_empty(renews), added.len()));
            for (name, n) in added {
                script.key(self.keys.count(precision.seconds, name));
                script.arg(n);
            }
        }
        for added in &additions.statistics {
            let (stats, context) = (self.keys.stats(&added.context.name), &added.context);
            script.key((stats.current, stats.start, stats.last, stats.pstart));
            script.arg((context.kind.as_str(), &*context.name, added.last_seen));
            let hours = Some(&*added.hours).filter(|_| self.options.book_keys);
            let hours = hours.unwrap_or_default();
            script.arg(hours.len());
            for (hour, times) in hours {
                script.arg((hour, iso_hour(*hour)));
                for value in [times.count, times.sum, times.sumsq, times.min, times.max] {
                    // `Debug` writes the shortest text that parses to the same number.
                    script.arg(format!("{value:?}"));
                }
            }
        }
    }
}

/// Whether a counter's first addition in this slice lists the counter in `known:` again, and renews the time to live of
/// its key. A renewal in every slice would cost more commands. The time to live is longer than the span of the retained
/// slices, and the time between two renewals is at most the difference. So each slice is kept for the whole span.
fn renews(precision: Precision, slice: i64) -> bool {
    const MAX_SLICES: i64 = 16;
    let width = i64::from(precision.seconds);
    let margin = (precision.key_ttl() - precision.span()) / width;
    slice.div_euclid(width) % margin.clamp(1, MAX_SLICES) == 0
}
