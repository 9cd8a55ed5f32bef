//! Computing or waiting: the part of the requests' time that a change of speed comes from.

use super::change::Suspect;
use super::suspects::{MIN_REQUESTS, Sides};
use super::words::{duration, instead};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::measures::Measure;

/// The smallest part of a change that must be within polls for computing to be the suspect.
const MIN_SHARE: f64 = 0.5;

/// The suspect for a change of speed: the time within polls if at least half of the change is there, or else the time
/// outside of polls. `is_delayed` says that the scheduling delay of an instance is high: a long poll may then have
/// waited for a CPU. `is_brief` leaves out the figures, for a sentence that has the figures of a timer.
pub fn computing_or_waiting(sides: &Sides, is_delayed: bool, is_brief: bool) -> Option<Suspect> {
    let (then, now) = (polled(&sides.then)?, polled(&sides.now)?);
    let (computing, waiting) = (now.0 - then.0, now.1 - then.1);
    let change = computing + waiting;
    if change == 0.0 {
        return None;
    }
    let in_words = |longer: [&str; 2], then: f64, now: f64| {
        let word = longer[usize::from(change < 0.0)];
        match is_brief {
            true => word.to_owned(),
            false => format!("{word}, {}", instead(now, " a request", then)),
        }
    };
    let share = computing / change;
    if share >= MIN_SHARE {
        let longest = sides.now.measures.get(Measure::LongestPoll) as f64 / 1e9;
        let of_longest = match computing > 0.0 {
            true => format!("; one poll took {}", duration(longest)),
            false => String::new(),
        };
        let longer = ["it computes longer", "it computes less"];
        let text = in_words(longer, then.0, now.0);
        return (!is_delayed).then(|| Suspect::Computing {
            then: then.0,
            now: now.0,
            share: share.min(1.0),
            longest,
            text: format!("{text}{of_longest}").into(),
        });
    }
    let longer = ["it waits longer", "it waits less"];
    Some(Suspect::Waiting {
        then: then.1,
        now: now.1,
        share: (1.0 - share).min(1.0),
        text: in_words(longer, then.1, now.1).into(),
    })
}

/// The mean seconds of a request within its polls, and outside of them; `None` if there are too few requests, or no
/// measured polls.
fn polled(sums: &Aggregate) -> Option<(f64, f64)> {
    let seconds = |measure| sums.measures.get(measure) as f64 / 1e9;
    let (computing, waiting) = (seconds(Measure::PollTime), seconds(Measure::Waited));
    let whole = computing + waiting;
    if sums.times.count < MIN_REQUESTS || whole == 0.0 {
        return None;
    }
    // Requests that the application recorded itself have no polls, so the mean of all requests is divided in the ratio
    // of the measured requests.
    let mean = sums.times.sum as f64 / 1e9 / sums.times.count as f64;
    Some((mean * computing / whole, mean * waiting / whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_close;

    /// The sums of requests, each with these milliseconds within and outside of its polls.
    fn requests(count: u64, computing: u64, waiting: u64) -> Aggregate {
        let mut sums = Aggregate::default();
        let nanos = |millis: u64| millis * 1_000_000;
        for _ in 0..count {
            sums.times.record(nanos(computing + waiting));
            sums.measures.add(Measure::PollTime, nanos(computing));
            sums.measures.add(Measure::Waited, nanos(waiting));
            sums.measures.add(Measure::LongestPoll, nanos(computing));
            sums.measures.add(Measure::Polls, 2);
        }
        sums
    }

    fn suspected(then: (u64, u64), now: (u64, u64), is_delayed: bool) -> Option<String> {
        in_words(then, now, is_delayed, false)
    }

    fn in_words(
        then: (u64, u64),
        now: (u64, u64),
        is_delayed: bool,
        is_brief: bool,
    ) -> Option<String> {
        let sides = Sides {
            then: requests(40, then.0, then.1),
            now: requests(30, now.0, now.1),
        };
        match computing_or_waiting(&sides, is_delayed, is_brief)? {
            Suspect::Computing { text, share, .. } | Suspect::Waiting { text, share, .. } => {
                Some(format!("{text} ({share:.2})"))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_part_that_has_grown_is_named() {
        let named = |then, now| suspected(then, now, false).expect("one is named");
        let computes =
            "it computes longer, 48 ms a request instead of 3.0 ms; one poll took 48 ms (0.98)";
        assert_eq!(named((3, 42), (48, 43)), computes);
        let waits = "it waits longer, 142 ms a request instead of 42 ms (0.93)";
        assert_eq!(named((3, 42), (11, 142)), waits);
        // For faster requests, the part that has shrunk is named.
        let less = "it computes less, 3.0 ms a request instead of 48 ms (0.98)";
        assert_eq!(named((48, 43), (3, 42)), less);
        let less = "it waits less, 42 ms a request instead of 142 ms (1.00)";
        assert_eq!(named((3, 142), (3, 42)), less);
        // Beside a timer, the figures are left out.
        let brief = |then, now| in_words(then, now, false, true).expect("one is named");
        let computes = "it computes longer; one poll took 48 ms (0.98)";
        assert_eq!(brief((3, 42), (48, 43)), computes);
        assert_eq!(brief((3, 42), (11, 142)), "it waits longer (0.93)");
        // If one part grows and the other shrinks, the larger difference decides.
        assert!(named((10, 40), (40, 20)).starts_with("it computes longer"));
        assert!(named((10, 40), (0, 90)).starts_with("it waits longer"));
    }

    #[test]
    fn computing_is_no_suspect_on_a_delayed_machine() {
        assert_eq!(suspected((3, 42), (48, 43), true), None);
        assert!(suspected((3, 42), (3, 142), true).is_some());
    }

    #[test]
    fn without_measured_polls_there_is_no_suspect() {
        let without = Aggregate {
            measures: Default::default(),
            ..requests(40, 3, 42)
        };
        for (then, now) in [
            (without.clone(), requests(40, 48, 42)),
            (requests(40, 3, 42), without.clone()),
            (requests(MIN_REQUESTS - 1, 3, 42), requests(40, 48, 42)),
            (requests(40, 3, 42), requests(40, 3, 42)),
            (Aggregate::default(), Aggregate::default()),
        ] {
            assert_eq!(
                computing_or_waiting(&Sides { then, now }, false, false),
                None
            );
        }
    }

    #[test]
    fn requests_without_polls_do_not_count_as_waiting() {
        let [then, now] = [3, 48].map(|computing| {
            let mut sums = requests(20, computing, 42);
            for _ in 0..20 {
                sums.times.record((computing + 42) * 1_000_000);
            }
            sums
        });
        let suspect = computing_or_waiting(&Sides { then, now }, false, false);
        let Some(Suspect::Computing { then, now, .. }) = suspect else {
            panic!("{suspect:?}");
        };
        assert_close(then, 0.003, 1e-9);
        assert_close(now, 0.048, 1e-9);
    }
}
