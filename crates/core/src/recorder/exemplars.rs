//! Exemplars lead a reader from a bucket of a context's durations to a trace. The exemplar of a bucket is its newest
//! slow or failed request with a trace id. Exemplars cost nothing if no trace ids are recorded.

use super::totals::{BOUND_BUCKETS, BOUNDS};
use tower_pulse_model::slow_request::EXEMPLARS;

/// A context has an exemplar for each bucket, and one for the errors.
const _: () = assert!(EXEMPLARS == BOUND_BUCKETS + 1);

/// A request that is an example of the requests in its bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// The id of the request's trace, or else of the request.
    pub trace_id: Box<str>,
    /// The duration of the request, in nanoseconds.
    pub nanos: u64,
    /// When the request ended, in Unix milliseconds.
    pub ended: i64,
}

/// The exemplars of a context.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exemplars {
    buckets: [Option<Box<Exemplar>>; BOUND_BUCKETS],
    error: Option<Box<Exemplar>>,
}

impl Exemplar {
    /// The duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.nanos as f64 / 1e9
    }
}

impl Exemplars {
    /// The newest exemplar in adjacent buckets that a scraper sees as one bucket. The duration of this exemplar is
    /// within the bounds of the buckets.
    pub fn newest(&self, buckets: std::ops::RangeInclusive<usize>) -> Option<&Exemplar> {
        let buckets = self.buckets.get(buckets)?.iter().flatten();
        buckets.map(|exemplar| &**exemplar).max_by_key(|e| e.ended)
    }

    /// The newest request that was an error.
    pub fn error(&self) -> Option<&Exemplar> {
        self.error.as_deref()
    }

    /// Makes a request the exemplar of its bucket, unless a newer exemplar exists. An error also becomes the exemplar
    /// of the errors.
    pub fn add(&mut self, exemplar: &Exemplar, is_error: bool) {
        // The exact duration decides, because readers compare an exemplar with the bounds of its bucket.
        let seconds = exemplar.seconds();
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        if is_error {
            replace(&mut self.error, exemplar);
        }
        replace(&mut self.buckets[bucket], exemplar);
    }
}

fn replace(slot: &mut Option<Box<Exemplar>>, exemplar: &Exemplar) {
    let is_newer = |old: &Exemplar| exemplar.ended >= old.ended;
    if slot.as_deref().is_none_or(is_newer) {
        *slot = Some(Box::new(exemplar.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_request_of_a_bucket_is_its_exemplar() {
        let mut exemplars = Exemplars::default();
        for (millis, ended, is_error, trace_id) in [
            (1, 5, false, "at the bound"),
            (60, 3, false, "old"),
            (61, 4, true, "new"),
            (62, 2, false, "too late"),
            (90, 7, false, "next"),
            (40_000, 1, true, "beyond"),
        ] {
            let exemplar = Exemplar {
                trace_id: trace_id.into(),
                nanos: 1_000_000 * millis,
                ended,
            };
            exemplars.add(&exemplar, is_error);
        }
        let newest = |buckets| exemplars.newest(buckets).map(|e| &*e.trace_id);
        let bucket = |bound| BOUNDS.iter().position(|b| *b == bound).expect("a bound");
        assert_eq!(newest(0..=0), Some("at the bound"));
        assert_eq!(newest(bucket(0.075)..=bucket(0.075)), Some("new"));
        assert_eq!(newest(bucket(0.1)..=bucket(0.1)), Some("next"));
        // A scraper's bucket from 50 to 100 ms covers two buckets, and has the newer of their exemplars.
        assert_eq!(newest(bucket(0.075)..=bucket(0.1)), Some("next"));
        assert_eq!(newest(BOUNDS.len()..=BOUNDS.len()), Some("beyond"));
        assert_eq!(newest(1..=bucket(0.05)), None);
        assert_eq!(exemplars.error().map(|e| &*e.trace_id), Some("new"));
    }
}
