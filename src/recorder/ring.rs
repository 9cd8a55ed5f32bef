//! Calls that were acknowledged a moment ago, kept in case that the store loses them: a primary
//! that dies before its replica had them.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::{Clock, Tick};
use crate::store::Call;

/// A call is replayed for so long after it was acknowledged.
const REPLAYED_FOR: Duration = Duration::from_secs(60);

/// It is known for so long how many requests a call held.
const KNOWN_FOR: Duration = Duration::from_secs(600);

/// Of so many calls it is known; of older ones together.
const KNOWN: usize = 4_096;

/// The calls of the last minute, of bounded size.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Older calls, of which only this is left.
    gone: VecDeque<Known>,
    kept: VecDeque<Kept>,
    bytes: usize,
    max_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    seq: u64,
    requests: u64,
    at: Tick,
}

#[derive(Debug)]
struct Kept {
    known: Known,
    bytes: usize,
    call: Call,
}

/// What is to be done about a gap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// The number of the call to send again, if there is one.
    pub(crate) seq: Option<u64>,
    /// Requests of calls before it that cannot be sent again.
    pub(crate) lost: u64,
}

impl Ring {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            gone: VecDeque::new(),
            kept: VecDeque::new(),
            bytes: 0,
            max_bytes,
        }
    }

    /// Keeps a call that was acknowledged.
    pub(crate) fn push(&mut self, clock: &Clock, call: Call) {
        let bytes = call.batch.approximate_bytes();
        self.bytes += bytes;
        self.kept.push_back(Kept {
            known: Known {
                seq: call.seq,
                requests: call.batch.requests(),
                at: clock.tick(),
            },
            bytes,
            call,
        });
        let max_bytes = self.max_bytes;
        while let Some(oldest) = self.kept.front()
            && (self.bytes > max_bytes || clock.since(oldest.known.at) > REPLAYED_FOR)
        {
            self.bytes -= oldest.bytes;
            self.gone.push_back(oldest.known);
            self.kept.pop_front();
        }
        let too_old = |known: &Known| clock.since(known.at) > KNOWN_FOR;
        while self.gone.front().is_some_and(too_old) {
            self.gone.pop_front();
        }
        if self.gone.len() > KNOWN
            && let Some(oldest) = self.gone.pop_front()
            && let Some(next) = self.gone.front_mut()
        {
            next.requests += oldest.requests;
        }
    }

    /// How many calls could be sent again.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The number of the last call, unless it was too long ago to be sent again.
    pub(crate) fn newest(&self, clock: &Clock) -> Option<u64> {
        let kept = self.kept.back().map(|kept| kept.known);
        let newest = kept.or(self.gone.back().copied())?;
        (clock.since(newest.at) <= REPLAYED_FOR).then_some(newest.seq)
    }

    /// What to send to a store whose last call is `fence`. What is counted as lost is forgotten, so
    /// that it is counted once.
    pub(crate) fn after(&mut self, fence: u64) -> Next {
        let gone = self.gone.iter_mut().rev();
        let lost = gone
            .take_while(|known| known.seq > fence)
            .map(|known| std::mem::take(&mut known.requests))
            .sum();
        let at = self.kept.partition_point(|kept| kept.known.seq <= fence);
        let seq = self.kept.get(at).map(|kept| kept.known.seq);
        Next { seq, lost }
    }

    /// The call of this number, as following `previous`.
    pub(crate) fn call(&mut self, seq: u64, previous: u64) -> Option<&Call> {
        let at = self.kept.partition_point(|kept| kept.known.seq < seq);
        let kept = self.kept.get_mut(at).filter(|kept| kept.known.seq == seq)?;
        kept.call.previous = previous;
        Some(&kept.call)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.gone.clear();
        self.kept.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::batch::{Batch, Collected};
    use crate::model::context::Kind;
    use crate::model::slice::Precisions;

    fn call(seq: u64) -> Call {
        let mut found = Collected::default();
        found.times.record(1_000);
        let mut batch = Batch::default();
        batch.add(
            &Precisions::default(),
            &"GET /".into(),
            Kind::Http,
            7,
            &found,
        );
        Call {
            instance: "i".into(),
            seq,
            previous: seq - 1,
            batch,
        }
    }

    #[test]
    fn of_many_calls_only_the_sum_is_known() {
        let (clock, _hand) = Clock::manual(0);
        let mut ring = Ring::new(0);
        for seq in 1..=3 * KNOWN as u64 {
            ring.push(&clock, call(seq));
        }
        assert_eq!((ring.gone.len(), ring.kept.len()), (KNOWN, 0));
        assert_eq!(ring.after(0).lost, 3 * KNOWN as u64);
        assert_eq!(ring.after(0).lost, 0);
    }

    #[test]
    fn what_is_too_old_or_too_much_is_counted_as_lost_once() {
        let (clock, hand) = Clock::manual(0);
        let size = call(1).batch.approximate_bytes();
        let mut ring = Ring::new(3 * size);
        ring.push(&clock, call(1));
        hand.advance(Duration::from_secs(61));
        for seq in 2..=5 {
            ring.push(&clock, call(seq));
        }
        // 1 is too old, 2 had no room.
        assert_eq!(
            ring.after(0),
            Next {
                seq: Some(3),
                lost: 2
            }
        );
        assert_eq!(
            ring.after(0),
            Next {
                seq: Some(3),
                lost: 0
            }
        );
        assert_eq!(ring.call(3, 0).map(|call| call.previous), Some(0));
        assert_eq!(ring.after(3).seq, Some(4));
        assert_eq!(ring.after(5), Next { seq: None, lost: 0 });
        hand.advance(Duration::from_secs(601));
        ring.push(&clock, call(6));
        assert_eq!((ring.gone.len(), ring.kept.len(), ring.bytes), (0, 1, size));
        assert_eq!(ring.newest(&clock), Some(6));
        hand.advance(Duration::from_secs(61));
        assert_eq!(ring.newest(&clock), None);
    }
}
