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

/// The calls of the last minute, of bounded size.
#[derive(Debug)]
pub(crate) struct Ring {
    kept: VecDeque<Kept>,
    bytes: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    seq: u64,
    requests: u64,
    at: Tick,
    bytes: usize,
    /// `None` once it is too old or there was no room.
    call: Option<Call>,
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
            seq: call.seq,
            requests: call.batch.requests(),
            at: clock.tick(),
            bytes,
            call: Some(call),
        });
        while self
            .kept
            .front()
            .is_some_and(|kept| clock.since(kept.at) > KNOWN_FOR)
        {
            let gone = self.kept.pop_front();
            self.bytes -= gone
                .filter(|kept| kept.call.is_some())
                .map_or(0, |kept| kept.bytes);
        }
        let (mut bytes, max) = (self.bytes, self.max_bytes);
        let with_call = self.kept.iter_mut().filter(|kept| kept.call.is_some());
        for kept in with_call {
            if bytes <= max && clock.since(kept.at) <= REPLAYED_FOR {
                break;
            }
            kept.call = None;
            bytes -= kept.bytes;
        }
        self.bytes = bytes;
    }

    /// What to send to a store whose last call is `fence`. What is counted as lost is forgotten, so
    /// that it is counted once.
    pub(crate) fn after(&mut self, fence: u64) -> Next {
        let mut lost = 0;
        for kept in self.kept.iter_mut().filter(|kept| kept.seq > fence) {
            if kept.call.is_some() {
                let seq = Some(kept.seq);
                return Next { seq, lost };
            }
            lost += std::mem::take(&mut kept.requests);
        }
        Next { seq: None, lost }
    }

    /// The call of this number, as following `previous`.
    pub(crate) fn call(&mut self, seq: u64, previous: u64) -> Option<&Call> {
        let kept = self.kept.iter_mut().find(|kept| kept.seq == seq)?;
        let call = kept.call.as_mut()?;
        call.previous = previous;
        Some(call)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
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
        assert_eq!((ring.kept.len(), ring.bytes), (1, size));
    }
}
