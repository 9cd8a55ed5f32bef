//! Drains the slowest and the failed requests: moves them from the lists of the contexts to the batch, and sets the
//! thresholds of the lists for the rest of the hour.

use std::sync::Arc;

use super::shards::Cells;
use super::slow::{ListedRequest, ListedRequests, LongestDurations, SlowDrain, SlowList};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::slice::hour_of;
use tower_pulse_model::slow_request::{SlowRequest, SlowRequests};

/// The state of the drain of slow requests.
pub(super) struct SlowRequestDrain {
    /// The name of this instance.
    instance: Arc<str>,
    /// The second that is drained, in Unix seconds.
    second: i64,
    /// The start of the hour to which the next drain's requests are expected to belong, in Unix seconds.
    hour: i64,
    /// This process's longest durations of the hour.
    longest: LongestDurations,
    /// The slowest requests of this drain.
    slowest: SlowRequests,
    drain: SlowDrain,
}

impl SlowRequestDrain {
    pub(super) fn new(now: i64) -> Self {
        let longest = LongestDurations::of_all();
        Self {
            instance: "".into(),
            second: now,
            hour: hour_of(now),
            drain: SlowDrain {
                begins_hour: false,
                ends_hour: false,
                threshold_of_all: longest.threshold(),
            },
            longest,
            slowest: SlowRequests::of(Kind::All),
        }
    }

    /// Sets the name of this instance.
    pub(super) fn set_instance(&mut self, instance: &str) {
        self.instance = instance.into();
    }

    /// Begins to drain the requests of `second` at the second `now`.
    pub(super) fn begin(&mut self, second: i64, now: i64) {
        let hour = hour_of(second);
        let begins_hour = hour != self.hour;
        if begins_hour {
            self.longest.clear();
        }
        self.second = second;
        self.hour = hour_of(now);
        self.drain = SlowDrain {
            begins_hour,
            ends_hour: hour != self.hour,
            // This is the threshold after the last drain. Thresholds rise during the hour, so it is never too high.
            threshold_of_all: self.longest.threshold(),
        };
    }

    /// Whether all lists are to be drained, including those of contexts in which nothing happened: at the start of an
    /// hour, all thresholds are reset to 0.
    pub(super) fn concerns_all(&self) -> bool {
        self.drain.begins_hour || self.drain.ends_hour
    }

    /// Moves the requests out of a list.
    pub(super) fn take(&self, list: &SlowList, cells: &Cells) -> ListedRequests {
        list.drain(cells, self.drain)
    }

    /// Adds requests to their context in the batch. Also collects those that are among the slowest of all contexts.
    pub(super) fn add(&mut self, pending: &mut Batch, context: ContextId, listed: ListedRequests) {
        let mut slowest = SlowRequests::of(context.kind);
        for request in listed.slow {
            let request = self.request(&context, request);
            if request.nanos >= self.longest.threshold() {
                self.longest.add(request.nanos);
                self.slowest.add(request.clone());
            }
            slowest.add(request);
        }
        for request in listed.failed {
            slowest.add(self.request(&context, request));
        }
        pending.add_slowest(context, self.second, slowest);
    }

    fn request(&self, context: &ContextId, listed: ListedRequest) -> SlowRequest {
        // The request may have ended outside of the drained second, even in another hour.
        let start = self.second.saturating_mul(1_000);
        let end = start.saturating_add(999);
        SlowRequest {
            nanos: listed.nanos,
            ended: listed.ended_at.clamp(start, end),
            context: context.name.clone(),
            instance: self.instance.clone(),
            outcome: listed.ended.outcome,
            is_error: listed.ended.is_error,
            status: listed.ended.status.map(|status| status.as_u16()),
            trace_id: listed.trace_id,
            path: listed.path,
        }
    }

    /// Adds the slowest requests of all contexts to the batch.
    pub(super) fn end(&mut self, pending: &mut Batch) {
        let empty = SlowRequests::of(Kind::All);
        let slowest = std::mem::replace(&mut self.slowest, empty);
        if !slowest.is_empty() {
            pending.add_slowest(ContextId::all(), self.second, slowest);
        }
        if self.drain.ends_hour {
            self.longest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::recorder::{Limits, Recorder};
    use tower_pulse_model::context::{OVERFLOW, UNMATCHED};
    use tower_pulse_model::outcome::Outcome;
    use tower_pulse_model::slice::Precisions;
    use tower_pulse_model::slices::Merge;

    const NOW: i64 = 1_700_000_000;

    fn recorder(max_contexts: usize) -> (Arc<Recorder>, ManualClock) {
        let (clock, manual_clock) = Clock::manual(NOW);
        let limits = Limits::new(max_contexts, 9);
        let recorder = Recorder::new(clock, Precisions::default(), limits);
        (Arc::new(recorder), manual_clock)
    }

    /// The slow requests of a context in the pending batch, by hour: durations in milliseconds, slowest first.
    fn slowest(recorder: &Recorder, context: &ContextId) -> Vec<(i64, Vec<u64>)> {
        recorder.drain();
        let batch = recorder.drain.take();
        let lists = batch.contexts.get(context).map(|delta| &delta.slowest);
        let lists = lists.into_iter().flat_map(|lists| lists.iter());
        let millis = |list: &SlowRequests| list.iter().map(|r| r.nanos / 1_000_000).collect();
        lists.map(|(hour, list)| (hour, millis(list))).collect()
    }

    fn request(recorder: &Recorder, context: &str, millis: u64) {
        let duration = Duration::from_millis(millis);
        recorder.record_request(context, duration, Outcome::Cancelled.into());
    }

    #[test]
    fn a_slow_request_is_in_the_list_of_its_context_and_in_that_of_all() {
        let (recorder, _) = recorder(9);
        recorder.drain.set_instance("one");
        let (root, all) = (ContextId::new(Kind::Http, "GET /"), ContextId::all());
        (1..=7).for_each(|millis| request(&recorder, "GET /", millis));
        request(&recorder, "POST /", 4);
        recorder.drain();
        let batch = recorder.drain.take();
        let list = |context: &ContextId| {
            let lists = &batch.contexts.get(context).expect("its additions").slowest;
            let (hour, list) = lists.iter().next().expect("a list");
            assert_eq!((lists.len(), hour), (1, hour_of(NOW)));
            list.iter().cloned().collect::<Vec<_>>()
        };
        let slowest = SlowRequest {
            nanos: 7_000_000,
            ended: 1_000 * NOW,
            context: "GET /".into(),
            instance: "one".into(),
            outcome: Outcome::Cancelled,
            is_error: false,
            status: None,
            trace_id: None,
            path: None,
        };
        assert_eq!(list(&root)[0], slowest);
        assert_eq!(list(&root).len(), 5);
        let in_all = list(&all).into_iter();
        let in_all = in_all.map(|r| (r.nanos / 1_000_000, r.context.to_string()));
        let context = |millis| if millis == 4 { "POST /" } else { "GET /" };
        assert_eq!(
            in_all
                .filter(|(millis, _)| *millis != 4)
                .collect::<Vec<_>>(),
            [7, 6, 5, 3, 2, 1].map(|millis| (millis, context(millis).to_owned()))
        );
        let in_all = list(&all).into_iter().filter(|r| r.nanos == 4_000_000);
        assert_eq!(in_all.count(), 2);

        // While the list of all contexts has fewer than 100 requests, it takes any request.
        request(&recorder, "GET /", 3);
        request(&recorder, "GET /", 9);
        assert_eq!(slowest_millis(&recorder, &root), [[9, 3]]);
        (0..100).for_each(|n| request(&recorder, &format!("GET /{}", n % 6), 1_000));
        recorder.drain();
        recorder.drain();
        request(&recorder, "GET /", 4);
        request(&recorder, "GET /", 5);
        assert_eq!(slowest_millis(&recorder, &root), [[5]]);
    }

    fn slowest_millis(recorder: &Recorder, context: &ContextId) -> Vec<Vec<u64>> {
        let lists = slowest(recorder, context).into_iter();
        lists.map(|(_, millis)| millis).collect()
    }

    #[test]
    fn a_request_belongs_to_the_hour_of_the_drained_second() {
        let (recorder, manual_clock) = recorder(9);
        let root = ContextId::new(Kind::Http, "GET /");
        let hour = hour_of(NOW);
        manual_clock.set_wall(hour + 3_599);
        recorder.drain();
        (10..30).for_each(|millis| request(&recorder, "GET /", millis));
        // The first drain after the start of the hour drains the last second of the hour before.
        manual_clock.set_wall(hour + 3_600);
        (30..32).for_each(|millis| request(&recorder, "GET /", millis));
        recorder.drain();
        let batch = recorder.drain.take();
        let delta = batch.contexts.get(&root).expect("its additions");
        let (at, list) = delta.slowest.iter().next().expect("a list");
        let times = list.iter().map(|r| r.ended).collect::<Vec<_>>();
        assert_eq!((at, list.len()), (hour, 5));
        assert_eq!(times[0], 1_000 * (hour + 3_599) + 999, "within the second");
        // In the new hour, all requests are slow at first.
        request(&recorder, "GET /", 1);
        assert_eq!(slowest(&recorder, &root), [(hour + 3_600, vec![1])]);
        request(&recorder, "GET /", 2);
        manual_clock.set_wall(hour);
        assert_eq!(slowest(&recorder, &root), [(hour, vec![2])], "back in time");
    }

    #[test]
    fn an_hour_begins_without_a_threshold_also_where_nothing_happens() {
        let (recorder, manual_clock) = recorder(9);
        let root = ContextId::new(Kind::Http, "GET /");
        let hour = hour_of(NOW);
        (10..30).for_each(|millis| request(&recorder, "GET /", millis));
        recorder.drain();
        // A hundred slower requests, 20 per drain, while nothing happens in the other context.
        for _ in 0..5 {
            (0..20).for_each(|_| request(&recorder, "POST /", 900));
            recorder.drain();
        }
        recorder.drain.take();
        request(&recorder, "GET /", 9);
        assert_eq!(slowest(&recorder, &root), [], "others are slower");
        for second in [hour + 3_599, hour + 3_600, hour + 3_601] {
            manual_clock.set_wall(second);
            recorder.drain();
        }
        request(&recorder, "GET /", 9);
        assert_eq!(slowest(&recorder, &root), [(hour + 3_600, vec![9])]);
    }

    #[test]
    fn only_requests_are_slow_and_none_after_the_end() {
        let (recorder, _) = recorder(1);
        recorder.entry(Kind::Timer, "job").record_measured(
            Duration::from_secs(9),
            Outcome::Completed,
            false,
        );
        assert_eq!(slowest(&recorder, &ContextId::new(Kind::Timer, "job")), []);
        for context in [UNMATCHED, OVERFLOW] {
            request(&recorder, context, 3);
            let context = ContextId::new(Kind::Http, context);
            assert_eq!(slowest_millis(&recorder, &context), [[3]]);
        }
        recorder.recording.close();
        request(&recorder, UNMATCHED, 5);
        assert_eq!(slowest(&recorder, &ContextId::all()), []);
        assert!(recorder.drain.take().is_empty());
    }

    #[test]
    fn the_list_of_all_has_the_slowest_hundred_of_many_seconds() {
        let (recorder, manual_clock) = recorder(99);
        let mut rng = fastrand::Rng::with_seed(7);
        let (mut all, mut listed) = (Vec::new(), SlowRequests::of(Kind::All));
        for _ in 0..50 {
            for _ in 0..200 {
                let millis = rng.u64(..1 << 40) >> rng.u32(..40);
                request(&recorder, &format!("GET /{}", rng.u8(..20)), millis);
                all.push(millis.min(7 * 86_400_000));
            }
            manual_clock.advance(Duration::from_secs(1));
            recorder.drain();
            let batch = recorder.drain.take();
            let delta = batch
                .contexts
                .get(&ContextId::all())
                .expect("there were requests");
            delta
                .slowest
                .iter()
                .for_each(|(_, list)| listed.merge(list));
        }
        all.sort_unstable_by(|a, b| b.cmp(a));
        let listed: Vec<_> = listed.iter().map(|r| r.nanos / 1_000_000).collect();
        assert_eq!(listed, all[..100]);
    }
}
