//! One page of the detector: its last minutes, and their scores against its own past.

use std::collections::VecDeque;

use super::history::{History, RENEWED, STORED, Span, Tick};
use super::past::find_past;
use super::reference::{Past, Reference};
use super::scored::{Scored, score};
use super::state::SharedMinutes;

/// The number of minutes that have scores.
pub(crate) const SCORED: Tick = 31;

/// A past, and the scores of the last minutes against it.
pub(crate) struct Lens {
    pub(crate) past: Past,
    pub(crate) reference: Reference,
    pub(crate) scored: VecDeque<Scored>,
    /// The minute for which the past was made.
    epoch: Tick,
}

/// A page.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) history: History,
    pub(crate) lens: Option<Box<Lens>>,
    /// The minute for which no past was found.
    missing: Option<Tick>,
}

impl Page {
    /// The latest minute, up to `now`, for which this page's past is made. The phase differs between pages.
    fn epoch(number: u64, now: Tick) -> Tick {
        let phase = (number % RENEWED as u64) as Tick;
        now - (now - phase).rem_euclid(RENEWED)
    }

    /// Renews the lens, if a new epoch has begun. `excluded` are times that may not be part of a past. `before` is the
    /// end and the past of the last alarm, used if there is no other past.
    pub(crate) fn renew(
        &mut self,
        number: u64,
        now: Tick,
        shared: &SharedMinutes,
        excluded: &[Span],
        before: Option<(Tick, &Past)>,
    ) {
        let epoch = Self::epoch(number, now);
        let current = self.lens.as_ref().map(|lens| lens.epoch).or(self.missing);
        if current == Some(epoch) {
            return;
        }
        let past = find_past(&self.history, epoch, shared, excluded);
        // The result must not depend on when within an epoch this detector took over.
        let before = before.filter(|(ended, _)| *ended > epoch - STORED);
        let compared = past.or_else(|| before.and_then(|(_, past)| with_reference(past)));
        self.look_through(compared, epoch, now);
    }

    /// Removes the lens, so that it is made anew.
    pub(crate) fn drop_lens(&mut self) {
        self.lens = None;
        self.missing = None;
    }

    /// Compares with this past from now on.
    pub(crate) fn freeze(&mut self, past: &Past, now: Tick) {
        self.look_through(with_reference(past), Tick::MAX, now);
    }

    pub(crate) fn is_frozen(&self) -> bool {
        let lens = self.lens.as_ref();
        lens.is_some_and(|lens| lens.epoch == Tick::MAX)
    }

    fn look_through(&mut self, compared: Option<(Past, Reference)>, epoch: Tick, now: Tick) {
        self.missing = Some(epoch);
        self.lens = compared.map(|(past, reference)| {
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

    /// Scores the last minute, if it is `now` and has no score.
    pub(crate) fn score_last(&mut self, now: Tick) {
        let Some(lens) = &mut self.lens else { return };
        let is_scored = lens.scored.back().is_some_and(|last| last.tick >= now);
        if !is_scored {
            let (reference, scored) = (&lens.reference, &mut lens.scored);
            self.history.each(now, |minute, packed| {
                scored.push_back(score(minute.tick, packed, reference));
            });
        }
        lens.scored.retain(|scored| scored.tick > now - SCORED);
    }
}

fn with_reference(past: &Past) -> Option<(Past, Reference)> {
    Some((past.clone(), Reference::new(&past.counts())?))
}
