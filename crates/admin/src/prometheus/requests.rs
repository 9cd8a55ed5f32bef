//! The metrics of requests and timers in this instance since it started.

use super::Row;
use super::names::{Labels, Names, ends};
use super::text::Text;
use tower_pulse_core::recorder::totals::Totals;
use tower_pulse_core::targets::PathTarget;
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;

/// A context's maximum number of values of `code`, including `other`.
const MAX_CODES: usize = 10;

fn rows_of(kind: Kind, totals: &[Row]) -> impl Iterator<Item = &Row> {
    totals.iter().filter(move |(_, totals)| totals.kind == kind)
}

impl Text {
    /// Requests, their errors and durations, the targets of single contexts, and timers.
    pub(super) fn requests(&mut self, totals: &[Row], targets: &[PathTarget], names: Names) {
        let name = "pulse_requests_total";
        let help = "Requests of this instance by how they ended.";
        self.begin(name, help);
        for (context, totals) in rows_of(Kind::Http, totals) {
            let counts = Outcome::ALL
                .map(|outcome| (outcome.as_str(), totals.outcomes.count(outcome), None));
            let counts = counts.into_iter().filter(|(_, n, _)| *n > 0);
            self.samples(name, &names.labels_with_parts(context), "outcome", counts);
        }
        self.responses(totals, names);
        let help = "Requests of this instance that count as errors.";
        self.errors("pulse_errors_total", help, Kind::Http, totals, names);
        let help = "Durations of the requests of this instance.";
        let name = names.request_duration();
        self.histogram(name, help, Kind::Http, totals, names);
        self.targets(totals, targets, names);
        // OpenTelemetry has no names for metrics of timers.
        let names = Names::Pulse;
        let help = "Timed runs of this instance that count as errors.";
        self.errors("pulse_timer_errors_total", help, Kind::Timer, totals, names);
        let help = "Durations of timed code of this instance.";
        let name = "pulse_timer_duration_seconds";
        self.histogram(name, help, Kind::Timer, totals, names);
    }

    /// Responses by status code. The codes that a context answered first have lines of their own, so that no code moves
    /// to another line.
    fn responses(&mut self, totals: &[Row], names: Names) {
        let name = "pulse_responses_total";
        let help = "Responses of this instance by status code.";
        self.begin(name, help);
        for (context, totals) in rows_of(Kind::Http, totals) {
            let codes = totals.codes.iter();
            let mut codes: Vec<_> = codes.map(|(code, n)| (code.to_string(), n)).collect();
            let further = codes.drain(codes.len().min(MAX_CODES - 1)..);
            let other = further.map(|(_, n)| n).sum::<u64>() + totals.codes.other();
            codes.push(("other".to_owned(), other));
            let counts = codes.iter().filter(|(_, n)| *n > 0);
            let counts = counts.map(|(code, n)| (&**code, *n, None));
            self.samples(name, &names.labels(context), "code", counts);
        }
    }

    fn errors(&mut self, name: &str, help: &str, kind: Kind, totals: &[Row], names: Names) {
        self.begin(name, help);
        for (context, totals) in rows_of(kind, totals) {
            let exemplar = totals.exemplars.as_ref().and_then(|all| all.error());
            let (labels, errors) = (names.labels(context), totals.outcomes.errors);
            self.sample_with_exemplar(name, &labels, &errors, exemplar);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, kind: Kind, totals: &[Row], names: Names) {
        self.begin_kind(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let (sum, count) = (format!("{name}_sum"), format!("{name}_count"));
        // OpenMetrics and Prometheus 3 write `1.0`, not `1`. The Prometheus text does the same here: a bound is a
        // label, so another spelling would begin another series.
        let bounds = names.bounds().map(|bound| format!("{bound:?}"));
        let bounds = || bounds.iter().map(String::as_str).chain(["+Inf"]);
        for (context, totals) in rows_of(kind, totals) {
            let (mut below, mut next) = (0u64, 0);
            let buckets = bounds().zip(ends(names.bounds())).map(|(bound, end)| {
                let merged = next..=end;
                next = end + 1;
                let counts = totals.buckets[merged.clone()].iter();
                below = counts.fold(below, |sum, n| sum.saturating_add(*n));
                let exemplars = totals.exemplars.as_ref();
                (bound, below, exemplars.and_then(|all| all.newest(merged)))
            });
            let labels = names.labels(context);
            self.samples(&bucket, &labels, "le", buckets);
            self.sample(&sum, &labels, &(totals.nanos as f64 / 1e9));
            // The format requires this line, which equals the last bucket.
            self.sample(&count, &labels, &below);
        }
    }

    /// The targets of single contexts, as counters and not as shares: a query can then compute the burn rate of the
    /// error budget for any window. The counters start at 0, so the first bad request is an increase.
    fn targets(&mut self, totals: &[Row], targets: &[PathTarget], names: Names) {
        if targets.is_empty() {
            return;
        }
        let counted_and_bad = |target: &PathTarget| {
            let mut totals = rows_of(Kind::Http, totals);
            let row = totals.find(|(context, _)| *context == target.context.name);
            let sums = row.and_then(|(_, totals): &(_, Totals)| totals.target);
            sums.map_or((0, 0), |sums| (sums.counted, sums.bad))
        };
        let rows: Vec<(Labels<'_>, &PathTarget, (u64, u64))> = targets
            .iter()
            .map(|target| {
                let labels = names.labels(&target.context.name);
                (labels, target, counted_and_bad(target))
            })
            .collect();
        let mut write = |name: &str, help: &str, value: &dyn Fn(&PathTarget, (u64, u64)) -> f64| {
            self.begin(name, help);
            for (labels, target, counts) in &rows {
                self.sample(name, labels, &value(target, *counts));
            }
        };
        let help = "Requests of this context that count for its target: successes and errors.";
        write("pulse_target_requests_total", help, &|_, (counted, _)| {
            counted as f64
        });
        let help = "Requests that missed the target: they were errors, or took too long.";
        write("pulse_target_bad_requests_total", help, &|_, (_, bad)| {
            bad as f64
        });
        let help = "The share of requests that should meet the target.";
        write("pulse_target_share", help, &|target, _| target.share);
        let name = "pulse_target_duration_seconds";
        let help = "The duration within which a good request ends.";
        write(name, help, &|target, _| target.duration.as_secs_f64());
    }
}
