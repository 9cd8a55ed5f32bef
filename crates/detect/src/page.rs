//! One page of the detector: its last minutes, and their scores against its own past.

use std::collections::VecDeque;

use super::history::{History, RENEWED, STORED, Span, Tick};
use super::past::find_past;
use super::reference::{Past, Reference};
use super::scored::{Scored, score};
use super::state::SharedMinutes;

pub(crate) const SCORED: Tick = 31;

/// The baseline of a page: a past, and the scores of the last minutes against it.
pub(crate) struct Baseline {
    pub(crate) past: Past,
    pub(crate) reference: Reference,
    pub(crate) scored: VecDeque<Scored>,
    /// The minute for which the past was found; `Tick::MAX` for a frozen baseline.
    epoch: Tick,
}

/// The last minutes of a context, and its baseline.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) history: History,
    pub(crate) base: Option<Box<Baseline>>,
    /// The minute for which a past was last searched.
    searched: Option<Tick>,
}

impl Page {
    /// Renews the baseline every [`RENEWED`] minutes. The minutes in `excluded` are not part of a past. `before` is the
    /// end of the last alarm that has ended, and the past that the alarm was compared with. This past is used again if
    /// no other past is found and the alarm ended within the stored minutes.
    pub(crate) fn renew(
        &mut self,
        number: u64,
        now: Tick,
        shared: &SharedMinutes,
        excluded: &[Span],
        before: Option<(Tick, &Past)>,
    ) {
        // The phase differs between pages, so that not all pages are renewed in the same minute.
        let phase = (number % RENEWED as u64) as Tick;
        // The newest minute, not after `now`, in which this page is due for renewal.
        let epoch = now - (now - phase).rem_euclid(RENEWED);
        let current = self.base.as_ref().map(|base| base.epoch).or(self.searched);
        if current == Some(epoch) {
            return;
        }
        let past = find_past(&self.history, epoch, shared, excluded);
        // The limit depends on the epoch instead of `now`: so a detector that takes over before the next epoch gets the
        // same result.
        let before = before.filter(|(ended, _)| *ended > epoch - STORED);
        let compared = past.or_else(|| before.and_then(|(_, past)| with_reference(past)));
        self.compare_with(compared, epoch, now);
    }

    /// Removes the baseline. The next [`renew`](Self::renew) makes another.
    pub(crate) fn remove_base(&mut self) {
        self.base = None;
        self.searched = None;
    }

    /// Compares with this past until the baseline is removed.
    pub(crate) fn freeze(&mut self, past: &Past, now: Tick) {
        self.compare_with(with_reference(past), Tick::MAX, now);
    }

    pub(crate) fn is_frozen(&self) -> bool {
        let base = self.base.as_ref();
        base.is_some_and(|base| base.epoch == Tick::MAX)
    }

    fn compare_with(&mut self, compared: Option<(Past, Reference)>, epoch: Tick, now: Tick) {
        self.searched = Some(epoch);
        self.base = compared.map(|(past, reference)| {
            let mut scored = VecDeque::with_capacity(SCORED as usize + 1);
            self.history.each(now - SCORED + 1, |minute, packed| {
                scored.push_back(score(minute.tick, packed, &reference));
            });
            Box::new(Baseline {
                past,
                reference,
                scored,
                epoch,
            })
        });
    }

    /// Scores the last minute, if it is `now` and has no score.
    pub(crate) fn score_last(&mut self, now: Tick) {
        let Some(base) = &mut self.base else { return };
        let is_scored = base.scored.back().is_some_and(|last| last.tick >= now);
        if !is_scored {
            let (reference, scored) = (&base.reference, &mut base.scored);
            self.history.each(now, |minute, packed| {
                scored.push_back(score(minute.tick, packed, reference));
            });
        }
        base.scored.retain(|scored| scored.tick > now - SCORED);
    }
}

fn with_reference(past: &Past) -> Option<(Past, Reference)> {
    Some((past.clone(), Reference::new(&past.counts())?))
}
