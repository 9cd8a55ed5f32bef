//! A buffer of acknowledged calls, in case the store loses them: a primary may die before its replica has them.

use std::collections::VecDeque;
use std::ops::Add;
use std::time::Duration;

use crate::clock::{Clock, Tick};
use crate::store::FencedBatch;
use tower_pulse_model::amounts::Amounts;

/// The least time for which a call can be replayed after its acknowledgement, if there is room.
const MIN_RETENTION: Duration = Duration::from_secs(60);
/// The amounts of each call are remembered separately for this long. Then the amounts of the calls of a minute are
/// added up.
const COUNT_RETENTION: Duration = Duration::from_secs(600);
/// Old calls that were acknowledged within this time of each other are added up.
const OLD_COUNTS_WITHIN: Duration = Duration::from_secs(60);
/// The greatest age at which a call is replayed or counted as lost. The store removes the fence of an instance that has
/// been idle for a day. So a missing fence does not mean that the store lost older calls.
const MAX_AGE: Duration = Duration::from_secs(12 * 3_600);
/// The most calls whose amounts are remembered separately. The amounts of the oldest calls beyond this number are added
/// up.
const MAX_COUNTS: usize = 4_096;

pub(super) struct ReplayBuffer {
    /// The amounts of calls older than [`COUNT_RETENTION`], added up, oldest first.
    old_counts: VecDeque<Acknowledged>,
    /// The amounts of calls that were removed from `calls`, oldest first. A call is removed when it is too old to be
    /// replayed, when there is no room for it, or by [`settle`](Self::settle).
    counts: VecDeque<Acknowledged>,
    /// The calls that can be replayed, oldest first.
    calls: VecDeque<Buffered>,
    bytes: usize,
    max_bytes: usize,
    retention: Duration,
    /// Whether the store, after the newest call became too old to be replayed, has confirmed that it has this call.
    is_settled: bool,
}

/// An acknowledged call, or several calls that were added up.
#[derive(Clone, Copy, Debug)]
struct Acknowledged {
    /// The number of the call, or of the newest of several calls.
    seq: u64,
    amounts: Amounts,
    /// The second to which the requests of all calls are attributed, and the number of these requests.
    served: (i64, u64),
    /// When the call, or one of several calls, was acknowledged.
    at: Moment,
}

/// A moment on both clocks, because the monotonic clock may stop while a machine is suspended, and the wall clock may
/// be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    tick: Tick,
    wall: i64,
}

impl Moment {
    pub(super) fn now(clock: &Clock) -> Self {
        Self {
            tick: clock.tick(),
            wall: clock.wall_nanos(),
        }
    }

    /// The time from this moment until a later one, by the clock on which more time has passed.
    fn until(&self, later: &Self, clock: &Clock) -> Duration {
        let wall = later.wall.saturating_sub(self.wall);
        let ticks = clock.nanos_between(self.tick, later.tick);
        Duration::from_nanos(u64::try_from(wall).unwrap_or(0).max(ticks))
    }
}

struct Buffered {
    acknowledged: Acknowledged,
    bytes: usize,
    call: FencedBatch,
}

/// The plan for a gap: for the calls that the store lacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GapPlan {
    /// The number of the call to replay next, if there is one.
    pub seq: Option<u64>,
    /// The amounts of the lost calls, which cannot be replayed.
    pub lost: Amounts,
    /// Seconds, each with the number of lost requests that are attributed to it.
    pub missing: Vec<(i64, u64)>,
}

impl ReplayBuffer {
    /// A buffer of up to `max_bytes`. A call is kept for three flush intervals, but at least for [`MIN_RETENTION`] and
    /// at most for [`COUNT_RETENTION`].
    pub(super) fn new(max_bytes: usize, interval: Duration) -> Self {
        Self {
            old_counts: VecDeque::new(),
            counts: VecDeque::new(),
            calls: VecDeque::new(),
            bytes: 0,
            max_bytes,
            retention: MIN_RETENTION.max(3 * interval).min(COUNT_RETENTION),
            is_settled: false,
        }
    }

    /// Buffers an acknowledged call, which was sent at `sent`. The age of earlier calls is their age at `sent`, because
    /// the acknowledgement proves that the store still had these calls then. A machine that was suspended may read the
    /// answer much later.
    pub(super) fn push(&mut self, clock: &Clock, call: FencedBatch, sent: Moment) {
        let bytes = call.batch.approximate_bytes();
        self.is_settled = false;
        self.bytes += bytes;
        self.calls.push_back(Buffered {
            acknowledged: Acknowledged {
                seq: call.seq,
                amounts: Amounts {
                    samples: call.batch.requests(),
                    ..call.batch.amounts_beside_samples()
                },
                served: call.batch.served(),
                at: Moment::now(clock),
            },
            bytes,
            call,
        });
        while let Some(oldest) = self.calls.front()
            && (self.bytes > self.max_bytes
                || oldest.acknowledged.at.until(&sent, clock) > self.retention)
        {
            self.bytes -= oldest.bytes;
            self.counts.push_back(oldest.acknowledged);
            self.calls.pop_front();
        }
        while let Some(oldest) = self.counts.front()
            && oldest.at.until(&sent, clock) > COUNT_RETENTION
        {
            let oldest = *oldest;
            self.counts.pop_front();
            self.add_old(oldest, clock);
        }
        while let Some(oldest) = self.old_counts.front()
            && oldest.at.until(&sent, clock) > MAX_AGE
        {
            self.old_counts.pop_front();
        }
        self.bound_counts();
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// The number of the newest call, if the store must still be asked whether it has this call; otherwise `None`.
    pub(super) fn newest(&self) -> Option<u64> {
        let newest = self.calls.back().map(|buffered| buffered.acknowledged);
        let newest = newest.or(self.counts.back().copied())?;
        (!self.is_settled).then_some(newest.seq)
    }

    /// Whether the newest call is too old to be replayed. Only one more answer of the store is then needed.
    pub(super) fn is_newest_old(&self, clock: &Clock) -> bool {
        let newest = self.calls.back().map(|buffered| buffered.acknowledged);
        let newest = newest.or(self.counts.back().copied());
        newest.is_none_or(|newest| newest.at.until(&Moment::now(clock), clock) > self.retention)
    }

    /// Notes that the store still had the newest call when the call was too old to be replayed. The buffered calls are
    /// then never replayed.
    pub(super) fn settle(&mut self) {
        self.is_settled = true;
        self.bytes = 0;
        let calls = self.calls.drain(..);
        self.counts.extend(calls.map(|call| call.acknowledged));
        self.bound_counts();
    }

    fn add_old(&mut self, call: Acknowledged, clock: &Clock) {
        match self.old_counts.back_mut() {
            Some(last) if last.at.until(&call.at, clock) < OLD_COUNTS_WITHIN => {
                last.seq = call.seq;
                last.amounts += call.amounts;
                last.served.1 += call.served.1;
            }
            _ => self.old_counts.push_back(call),
        }
    }

    fn bound_counts(&mut self) {
        while self.counts.len() > MAX_COUNTS
            && let Some(oldest) = self.counts.pop_front()
            && let Some(next) = self.counts.front_mut()
        {
            next.amounts += oldest.amounts;
            next.served.1 += oldest.served.1;
        }
    }

    /// Plans how to handle a gap beyond the call `fence`. Lost amounts are removed from the buffer, so that they are
    /// counted once. Old calls that were added up count as lost if the store lacks the newest of these calls. The age
    /// of the calls beyond the fence starts again at zero, because these calls are replayed.
    pub(super) fn plan_gap(&mut self, fence: u64, clock: &Clock) -> GapPlan {
        let now = Moment::now(clock);
        let is_old = |at: &Moment| at.until(&now, clock) > MAX_AGE;
        self.old_counts.retain(|count| !is_old(&count.at));
        self.counts.retain(|count| !is_old(&count.at));
        self.calls
            .retain(|buffered| !is_old(&buffered.acknowledged.at));
        self.bytes = self.calls.iter().map(|buffered| buffered.bytes).sum();
        for buffered in &mut self.calls {
            if buffered.acknowledged.seq > fence {
                buffered.acknowledged.at = now;
                self.is_settled = false;
            }
        }
        let counts = self.old_counts.iter_mut().chain(&mut self.counts).rev();
        let (mut lost, mut missing) = (Amounts::default(), Vec::new());
        for count in counts.take_while(|count| count.seq > fence) {
            lost += std::mem::take(&mut count.amounts);
            missing.push(std::mem::take(&mut count.served));
        }
        missing.retain(|(_, requests)| *requests > 0);
        let at = (self.calls).partition_point(|buffered| buffered.acknowledged.seq <= fence);
        let seq = self.calls.get(at).map(|buffered| buffered.acknowledged.seq);
        if seq.is_none() {
            // The calls beyond the fence are counted as lost. The store need not be asked about these calls again.
            self.old_counts.retain(|count| count.seq <= fence);
            self.counts.retain(|count| count.seq <= fence);
        }
        GapPlan { seq, lost, missing }
    }

    /// The remembered amounts of the calls beyond `fence`.
    pub(super) fn amounts_beyond(&self, fence: u64) -> Amounts {
        let calls = self.calls.iter().map(|buffered| &buffered.acknowledged);
        let beyond = self.old_counts.iter().chain(&self.counts).chain(calls);
        let beyond = beyond.filter(|count| count.seq > fence);
        beyond
            .map(|count| count.amounts)
            .fold(Amounts::default(), Add::add)
    }

    /// The call with this number, as the successor of `previous` in `generation`.
    pub(super) fn call(
        &mut self,
        seq: u64,
        previous: u64,
        generation: &str,
    ) -> Option<&FencedBatch> {
        let at = (self.calls).partition_point(|buffered| buffered.acknowledged.seq < seq);
        let buffered = self.calls.get_mut(at);
        let buffered = buffered.filter(|buffered| buffered.acknowledged.seq == seq)?;
        buffered.call.previous = previous;
        generation.clone_into(&mut buffered.call.generation);
        Some(&buffered.call)
    }

    pub(super) fn clear(&mut self) {
        self.old_counts.clear();
        self.counts.clear();
        self.calls.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::*;
    use crate::clock::ManualClock;
    use tower_pulse_model::aggregate::Aggregate;
    use tower_pulse_model::batch::Batch;
    use tower_pulse_model::context::{ALL, Kind};
    use tower_pulse_model::slice::Precisions;

    const SECOND: Duration = Duration::from_secs(1);

    fn call(seq: u64) -> FencedBatch {
        let mut request = Aggregate::default();
        request.times.record(1_000);
        let mut batch = Batch::new(Precisions::default());
        batch.add(&"GET /".into(), Kind::Http, 7, &request);
        batch.add(&ALL.into(), Kind::All, 7, &request);
        FencedBatch {
            generation: "g".into(),
            instance: "i".into(),
            seq,
            previous: seq - 1,
            batch,
        }
    }

    fn buffer_of(max_bytes: usize) -> (ReplayBuffer, Clock, ManualClock) {
        let (clock, manual_clock) = Clock::manual(0);
        (ReplayBuffer::new(max_bytes, SECOND), clock, manual_clock)
    }

    fn push(buffer: &mut ReplayBuffer, clock: &Clock, seqs: RangeInclusive<u64>) {
        seqs.for_each(|seq| buffer.push(clock, call(seq), Moment::now(clock)));
    }

    fn requests(n: u64) -> Amounts {
        Amounts {
            samples: n,
            ..Amounts::default()
        }
    }

    fn plan(seq: Option<u64>, lost: u64) -> GapPlan {
        GapPlan {
            seq,
            lost: requests(lost),
            missing: vec![(7, 1); lost as usize],
        }
    }

    #[test]
    fn additions_to_counters_are_counted_as_lost_too() {
        let (mut buffer, clock, _) = buffer_of(0);
        let mut sold = call(1);
        sold.batch = Batch::new(Precisions::default());
        sold.batch.count(&"sold".into(), 7, -9);
        buffer.push(&clock, sold, Moment::now(&clock));
        let lost = buffer.plan_gap(0, &clock).lost;
        assert_eq!(lost, Amounts::of_additions(9));
    }

    #[test]
    fn old_calls_are_counted_by_the_minute_for_twelve_hours() {
        let (mut buffer, clock, manual_clock) = buffer_of(0);
        let calls = 13 * 180;
        for seq in 1..=calls {
            buffer.push(&clock, call(seq), Moment::now(&clock));
            manual_clock.advance(20 * SECOND);
        }
        assert_eq!(buffer.counts.len(), 31, "ten minutes");
        let minutes = buffer.old_counts.len();
        assert!(minutes <= 12 * 60, "{minutes}");
        // The buffer does not know which calls of a minute the store lacks.
        let fence = buffer.old_counts.back().map_or(0, |count| count.seq) - 10;
        let lost = buffer.plan_gap(fence, &clock).lost.samples;
        assert!((calls - fence..calls - fence + 3).contains(&lost), "{lost}");
        assert_eq!(buffer.plan_gap(fence, &clock).lost, requests(0));
        let lost = lost + buffer.plan_gap(0, &clock).lost.samples;
        assert!((12 * 180 - 6..=12 * 180 + 1).contains(&lost), "{lost}");
    }

    #[test]
    fn amounts_beyond_a_fence_are_added_up_and_stay() {
        let (mut buffer, clock, manual_clock) = buffer_of(2 * call(1).batch.approximate_bytes());
        // Calls 1 to 3 are added up, calls 4 and 5 are remembered separately, and calls 6 and 7 are buffered.
        push(&mut buffer, &clock, 1..=3);
        manual_clock.advance(COUNT_RETENTION + SECOND);
        push(&mut buffer, &clock, 4..=7);
        assert_eq!((buffer.counts.len(), buffer.calls.len()), (2, 2));
        for (fence, beyond) in [(0, 7), (3, 4), (5, 2), (6, 1), (7, 0), (0, 7)] {
            assert_eq!(buffer.amounts_beyond(fence), requests(beyond), "{fence}");
        }
    }

    #[test]
    fn only_the_sum_of_surplus_calls_is_known() {
        let (mut buffer, clock, _) = buffer_of(0);
        let calls = 3 * MAX_COUNTS as u64;
        push(&mut buffer, &clock, 1..=calls);
        assert_eq!((buffer.counts.len(), buffer.calls.len()), (MAX_COUNTS, 0));
        assert_eq!(buffer.plan_gap(0, &clock).lost, requests(calls));
        assert_eq!(buffer.plan_gap(0, &clock).lost, requests(0));
    }

    #[test]
    fn a_call_that_is_too_old_or_has_no_room_is_counted_as_lost_once() {
        let size = call(1).batch.approximate_bytes();
        let (mut buffer, clock, manual_clock) = buffer_of(3 * size);
        buffer.push(&clock, call(1), Moment::now(&clock));
        manual_clock.advance(Duration::from_secs(61));
        push(&mut buffer, &clock, 2..=5);
        // Call 1 is too old, and there was no room for call 2.
        assert_eq!(buffer.plan_gap(0, &clock), plan(Some(3), 2));
        assert_eq!(buffer.plan_gap(0, &clock), plan(Some(3), 0));
        let again = buffer.call(3, 0, "h");
        let again = again.map(|call| (call.previous, &*call.generation));
        assert_eq!(again, Some((0, "h")));
        assert_eq!(buffer.plan_gap(3, &clock).seq, Some(4));
        assert_eq!(buffer.plan_gap(5, &clock), plan(None, 0));
        manual_clock.advance(Duration::from_secs(601));
        buffer.push(&clock, call(6), Moment::now(&clock));
        assert_eq!((buffer.counts.len(), buffer.calls.len()), (0, 1));
        assert_eq!(buffer.bytes, size);
    }

    #[test]
    fn calls_that_the_store_has_are_neither_lost_nor_renewed() {
        let (mut buffer, clock, manual_clock) = buffer_of(1 << 20);
        buffer.push(&clock, call(1), Moment::now(&clock));
        manual_clock.advance(60 * SECOND);
        assert_eq!(buffer.plan_gap(1, &clock), plan(None, 0));
        manual_clock.advance(SECOND);
        buffer.push(&clock, call(2), Moment::now(&clock));
        assert_eq!((buffer.counts.len(), buffer.calls.len()), (1, 1));
        assert_eq!(buffer.plan_gap(1, &clock).lost, requests(0));

        let mut counts = ReplayBuffer::new(0, SECOND);
        push(&mut counts, &clock, 1..=2);
        assert_eq!(counts.plan_gap(1, &clock), plan(None, 1));
        assert_eq!(counts.newest(), Some(1));
    }

    #[test]
    fn the_store_is_asked_about_the_newest_call_until_it_is_too_old_to_replay() {
        let (mut buffer, clock, manual_clock) = buffer_of(1 << 20);
        assert_eq!(buffer.newest(), None);
        buffer.push(&clock, call(1), Moment::now(&clock));
        manual_clock.advance(Duration::from_secs(60));
        assert!(!buffer.is_newest_old(&clock));
        // While a machine is suspended, its monotonic clock may stop.
        manual_clock.set_wall(3_600);
        assert!(buffer.is_newest_old(&clock));
        assert_eq!(buffer.newest(), Some(1));
        buffer.settle();
        assert_eq!(buffer.newest(), None);
        buffer.push(&clock, call(2), Moment::now(&clock));
        assert_eq!(buffer.newest(), Some(2));
        // A replayed call counts as new.
        manual_clock.advance(Duration::from_secs(700));
        assert_eq!(buffer.plan_gap(1, &clock).seq, Some(2));
        assert_eq!(buffer.newest(), Some(2));
        let sent = Moment::now(&clock);
        // The answer is read long after the call was sent.
        manual_clock.advance(Duration::from_secs(700));
        buffer.push(&clock, call(3), sent);
        assert_eq!(buffer.plan_gap(1, &clock).seq, Some(2));
    }

    #[test]
    fn a_fence_that_was_removed_for_its_age_loses_nothing() {
        for is_settled in [true, false] {
            let (mut buffer, clock, manual_clock) = buffer_of(1 << 20);
            buffer.push(&clock, call(1), Moment::now(&clock));
            manual_clock.advance(Duration::from_secs(61));
            if is_settled {
                buffer.settle();
            }
            manual_clock.advance(Duration::from_secs(86_400));
            assert_eq!(buffer.plan_gap(0, &clock), plan(None, 0));
            buffer.push(&clock, call(2), Moment::now(&clock));
            manual_clock.advance(Duration::from_secs(12 * 3_600));
            assert_eq!(buffer.plan_gap(1, &clock).seq, Some(2));
        }
    }
}
