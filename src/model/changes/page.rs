//! One page as the detector sees it: its last minutes, and their scores against its own past.

use std::collections::VecDeque;

use super::history::{BUCKETS, Counts, History, Packed, STORED, Tick};
use super::past::find_past;
use super::reference::{Past, Reference, SCORES};
use super::state::SharedMinutes;

/// Minutes that have scores.
pub(super) const SCORED: Tick = 31;
/// The past is looked up again after so many minutes.
pub(super) const RENEWED: Tick = 5;

/// The mean scores of a minute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scored {
    pub(super) tick: Tick,
    pub(super) count: f32,
    pub(super) scores: [f32; SCORES],
}

/// A past, and the scores of the last minutes against it.
#[derive(Debug)]
pub(super) struct Lens {
    pub(super) past: Past,
    pub(super) reference: Reference,
    pub(super) scored: VecDeque<Scored>,
    /// The minute for which the past was made.
    epoch: Tick,
}

/// A page.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) history: History,
    pub(super) lens: Option<Box<Lens>>,
    /// The minute for which a past was looked for in vain.
    missing: Option<Tick>,
}

impl Page {
    /// The latest minute, up to `now`, for which this page's past is made. Pages take turns.
    fn epoch(number: u64, now: Tick) -> Tick {
        let turn = (number % RENEWED as u64) as Tick;
        now - (now - turn).rem_euclid(RENEWED)
    }

    /// Makes the lens anew, if it is its turn. `excluded` are times that may not be part of a past; `kept` is
    /// used if there is no other.
    pub(super) fn renew(
        &mut self,
        number: u64,
        now: Tick,
        shared: &SharedMinutes,
        excluded: &[(Tick, Tick)],
        kept: Option<(Tick, &Past)>,
    ) {
        let epoch = Self::epoch(number, now);
        let current = self.lens.as_ref().map(|lens| lens.epoch).or(self.missing);
        if current == Some(epoch) {
            return;
        }
        let past = find_past(&self.history, epoch, shared, excluded);
        // The same as when this detector took over in the middle of an epoch.
        let kept = kept.filter(|(ended, _)| *ended > epoch - STORED);
        match past.or_else(|| kept.map(|(_, past)| past.clone())) {
            Some(past) => self.look_through(past, epoch, now),
            None => {
                self.lens = None;
                self.missing = Some(epoch);
            }
        }
    }

    /// Forgets the lens, so that it is made anew.
    pub(super) fn drop_lens(&mut self) {
        self.lens = None;
        self.missing = None;
    }

    /// Compares with this past from now on.
    pub(super) fn freeze(&mut self, past: &Past, now: Tick) {
        self.look_through(past.clone(), Tick::MAX, now);
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.lens
            .as_ref()
            .is_some_and(|lens| lens.epoch == Tick::MAX)
    }

    fn look_through(&mut self, past: Past, epoch: Tick, now: Tick) {
        let counts = past.counts();
        self.missing = Some(epoch);
        let reference = Reference::new(&counts);
        self.lens = reference.map(|reference| {
            let mut scored = VecDeque::with_capacity(SCORED as usize + 1);
            self.history.each(now - SCORED + 1, |minute, packed| {
                scored.push_back(score(minute.tick, packed, &reference));
            });
            Box::new(Lens {
                past,
                reference,
                scored,
                epoch,
            })
        });
    }

    /// Scores the last minute, if it is `now` and not scored.
    pub(super) fn score_last(&mut self, now: Tick) {
        let Some(lens) = &mut self.lens else { return };
        let known = lens.scored.back().is_some_and(|last| last.tick >= now);
        if !known {
            let (reference, scored) = (&lens.reference, &mut lens.scored);
            self.history.each(now, |minute, packed| {
                scored.push_back(score(minute.tick, packed, reference));
            });
        }
        while lens
            .scored
            .front()
            .is_some_and(|first| first.tick <= now - SCORED)
        {
            lens.scored.pop_front();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let lens = self.lens.as_ref().map_or(0, |lens| {
            size_of::<Lens>()
                + lens.scored.capacity() * size_of::<Scored>()
                + lens.reference.bytes()
                + lens.past.buckets.capacity() * 8
        });
        size_of::<(u64, Self)>() + self.history.bytes() + lens
    }
}

/// The mean scores of a minute.
pub(super) fn score(tick: Tick, packed: Packed<'_>, reference: &Reference) -> Scored {
    let mut sums = [0.0f64; SCORES];
    let mut total = 0.0f64;
    packed.buckets(|bucket, count, cut_off| {
        if cut_off && !reference.is_late(bucket) {
            return;
        }
        total += f64::from(count);
        for (sum, score) in sums.iter_mut().zip(reference.of(bucket)) {
            *sum += f64::from(count) * f64::from(score);
        }
    });
    Scored {
        tick,
        count: total as f32,
        scores: sums.map(|sum| {
            if total > 0.0 {
                (sum / total) as f32
            } else {
                0.0
            }
        }),
    }
}

/// The counts of successes and, above their median, of requests that were cut off.
#[derive(Debug)]
pub(super) struct Tally {
    successes: Box<Counts>,
    cut_off: Box<Counts>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            successes: Box::new([0; BUCKETS]),
            cut_off: Box::new([0; BUCKETS]),
        }
    }

    pub(super) fn add(&mut self, packed: Packed<'_>) {
        packed.buckets(|bucket, count, cut_off| {
            let side = if cut_off {
                &mut self.cut_off
            } else {
                &mut self.successes
            };
            side[bucket] = side[bucket].saturating_add(count);
        });
    }

    /// A cancelled request took at least what it took. Below the median that says nothing.
    pub(super) fn finish(mut self) -> Box<Counts> {
        let half = self.successes.iter().map(|n| u64::from(*n)).sum::<u64>() / 2;
        let mut below = 0;
        for (mine, cut_off) in self.successes.iter_mut().zip(self.cut_off.iter()) {
            below += u64::from(*mine);
            if below > half {
                *mine = mine.saturating_add(*cut_off);
            }
        }
        self.successes
    }
}

impl Past {
    /// Its counts by bucket.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = [0; BUCKETS];
        for (bucket, count) in &self.buckets {
            counts[usize::from(*bucket)] = *count;
        }
        counts
    }
}
