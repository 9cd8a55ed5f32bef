//! The search for new alarms at the end of a minute: first in each context alone, then across all findings. Contexts
//! that change together may have one cause.

use std::collections::HashMap;

use super::change::ChangeKind;
use super::detector::{Detector, pages_of};
use super::history::Tick;
use super::minute::all_id;
use super::page::Page;
use super::past::find_changed_past;
use super::reference::Past;
use super::state::Alarm;
use super::statistics::median;
use super::traffic::{self, Traffic, TrafficChange};
use super::verdict::Sums;
use super::{all, failing, further, speed};
use tower_pulse_model::context::{Kind, UNMATCHED};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::timer_sums::queue;

/// Standard deviations that a page needs to count as changed together with others.
const CROWD: f64 = 3.0;
/// A change this many times as large as the median change of its [crowd](Detector::crowd) is not part of the crowd.
const STANDS_OUT: f64 = 4.0;
/// Minutes that a change of a crowd must last.
const TOGETHER_LASTING: Tick = 8;

/// The largest number of minutes that a [further slowdown](super::further) is compared with.
const LONGEST_BEFORE: Tick = 15;

/// Whether there are too few pages to estimate the shift that all pages share.
pub(crate) fn are_alone(pages: &HashMap<RecordId, Page>) -> bool {
    let compared = pages_of(pages).filter(|(_, page)| page.base.is_some());
    compared.count() < all::FEWEST_PAGES
}

impl Detector {
    /// Opens the new alarms of minute `now`.
    pub(super) fn search(&mut self, now: Tick) {
        let are_alone = are_alone(&self.pages);
        self.search_further(now);
        let mut begun = Vec::new();
        let mut silent = Vec::new();
        let mut busy_pages = 0;
        let (queue, unmatched) = (queue(), RecordId::new(Kind::Http, UNMATCHED));
        for (id, page) in &self.pages {
            let state = &self.state;
            let seen = page.history.last().is_some_and(|last| last.tick == now);
            let has_ongoing = |kinds: &[ChangeKind]| state.has_ongoing(*id, kinds);
            if let Some(base) = &page.base
                && seen
                && !has_ongoing(&ChangeKind::SPEED)
            {
                let (shared, after) = (
                    state.shared.of(*id),
                    state.last_end(*id, &ChangeKind::SPEED),
                );
                let is_alone = are_alone || *id == queue;
                let found = speed::search(base, &shared, now, after, is_alone);
                begun.extend(found.map(|found| {
                    let subject = (*id, ChangeKind::of_speed(found.effect < 0.0));
                    let (times, size) = ((found.since, now), (found.strength, found.effect));
                    Alarm {
                        score_kind: found.score_kind,
                        ..Alarm::new(subject, times, size, base.past.clone())
                    }
                }));
            }
            // The traffic of the queue is that of all pages.
            if *id == queue {
                continue;
            }
            let excluded = state.excluded(*id, &[ChangeKind::Surging, ChangeKind::Silent], now);
            let traffic = Traffic::of(&page.history, &state.shared, now, &excluded);
            if let Some(traffic) = traffic {
                busy_pages += usize::from(traffic.rate >= 4.0);
                let alarm = |kind, change: TrafficChange| {
                    // A past has only integers. With 1,000 as the number of minutes, the rate keeps three decimals.
                    let (requests, minutes) = ((traffic.rate * 1_000.0) as u64, 1_000);
                    let before = Sums::of(&page.history.minutes, now - 76, change.since);
                    let past = Past {
                        minutes,
                        requests,
                        micros: (before.mean() * requests as f64 * 1e6) as u64,
                        ..Past::default()
                    };
                    let size = (change.strength, change.now);
                    Alarm::new((*id, kind), (change.since, now), size, past)
                };
                if seen && !has_ongoing(&[ChangeKind::Surging]) {
                    let after = state.last_end(*id, &[ChangeKind::Surging]);
                    let surge = traffic::surge(&traffic, &state.shared, after);
                    begun.extend(surge.map(|surge| alarm(ChangeKind::Surging, surge)));
                }
                if !seen && !has_ongoing(&[ChangeKind::Silent]) {
                    let silence = traffic::silence(&traffic);
                    silent.extend(silence.map(|silence| alarm(ChangeKind::Silent, silence)));
                }
            }
            for kind in [ChangeKind::Failing, ChangeKind::Refusing] {
                // Any client can request paths without a route, so their 4xx are not judged.
                let is_judged = kind == ChangeKind::Failing || *id != unmatched;
                if !seen || !is_judged || has_ongoing(&[kind]) {
                    continue;
                }
                let excluded = state.excluded(*id, &[kind], now);
                let after = state.last_end(*id, &[kind]);
                let minutes = page.history.minutes_for(kind);
                let found = failing::search(kind, &minutes, now, after, &excluded);
                begun.extend(found.map(|found| {
                    let sums = Sums::of(&minutes, found.since, now + 1);
                    let before = Sums::of(&minutes, now - 76, found.since);
                    let past = Past {
                        errors: (found.then * before.requests as f64).round() as u64,
                        ..before.past()
                    };
                    let size = (found.strength, sums.error_share());
                    Alarm::new((*id, kind), (found.since, now), size, past)
                }));
            }
        }
        self.open(begun, silent, busy_pages, now);
    }

    fn search_further(&mut self, now: Tick) {
        let alarms = self.state.alarms.iter();
        let slower = alarms.filter(|alarm| alarm.kind == ChangeKind::Slower);
        let mut further = Vec::new();
        for alarm in slower.filter(|alarm| !self.state.is_covered(alarm)) {
            let shared = self.state.shared.of(alarm.context);
            // A further slowdown that began before the first one was detected is part of the first change.
            if let Some(page) = self.pages.get(&alarm.context)
                && let Some((strength, since)) =
                    further::search(&page.history, &shared, (alarm.since, now))
                && since > alarm.detected
            {
                let before = (alarm.since.max(since - LONGEST_BEFORE), since);
                let past = find_changed_past(&page.history, before, &shared);
                further.extend(past.map(|past| (alarm.context, strength, since, past)));
            }
        }
        for (context, strength, since, past) in further {
            let Some(page) = self.pages.get_mut(&context) else {
                continue;
            };
            page.freeze(&past, now);
            let shared = self.state.shared.of(context);
            let effect =
                (page.base.as_ref()).map_or(0.0, |base| speed::effect_since(base, &shared, since));
            let (subject, size) = ((context, ChangeKind::Slower), (strength, effect));
            let alarm = Alarm::new(subject, (since, now), size, past);
            self.state.alarms.push(alarm);
        }
    }

    /// Opens these alarms. An alarm of a crowd opens only after [`TOGETHER_LASTING`] minutes, unless the alarm is a
    /// surge. If many pages are silent, one alarm of `<all>` replaces their alarms.
    fn open(&mut self, mut begun: Vec<Alarm>, silent: Vec<Alarm>, busy_pages: usize, now: Tick) {
        let mut crowds: HashMap<Tick, f64> = HashMap::new();
        begun.retain(|alarm| {
            let lasts = now - alarm.since >= TOGETHER_LASTING;
            let may_wait = alarm.kind != ChangeKind::Surging;
            if !may_wait || lasts {
                return true;
            }
            let crowd = *crowds
                .entry(alarm.since)
                .or_insert_with(|| self.crowd(alarm.since));
            !self.is_of_crowd(alarm, crowd)
        });
        let silences = self.state.alarms.iter();
        let silences = silences.filter(|alarm| alarm.kind == ChangeKind::Silent);
        if silent.len() < 2 || 2 * (silent.len() + silences.count()) < busy_pages {
            begun.extend(silent);
        } else if !self.state.has_ongoing(all_id(), &[ChangeKind::Silent]) {
            let first = silent.into_iter().min_by_key(|alarm| alarm.since);
            begun.extend(first.map(|alarm| Alarm {
                context: all_id(),
                past: self.past_of_all(alarm.since),
                ..alarm
            }));
        }
        if let Some(level) = all::search(&self.state.shared, now)
            && !self.state.has_ongoing(all_id(), &ChangeKind::SPEED)
        {
            let past = Past {
                level: (level.then * 1e6) as i64,
                ..self.past_of_all(level.since)
            };
            let subject = (all_id(), ChangeKind::of_speed(level.effect < 0.0));
            let (times, size) = ((level.since, now), (level.strength, level.effect));
            begun.push(Alarm::new(subject, times, size, past));
        }
        begun.order_by_key(|alarm| (alarm.context, alarm.kind as u8));
        for alarm in begun {
            if let Some(page) = self.pages.get_mut(&alarm.context)
                && alarm.kind.is_speed()
            {
                page.freeze(&alarm.past, now);
            }
            self.state.alarms.push(alarm);
        }
    }

    /// The median change of the pages that changed together in minute `since` (a crowd), as a logarithm of time; 0 if
    /// there is no crowd. A crowd may have a passing cause, such as a deploy, a batch job or a slow database.
    fn crowd(&self, since: Tick) -> f64 {
        let bases = pages_of(&self.pages).filter_map(|(_, page)| page.base.as_ref());
        let (mut all, mut sizes) = (0, Vec::new());
        for base in bases {
            all += 1;
            let size = speed::shift(base, &self.state.shared, since, CROWD);
            sizes.extend(size.map(f64::abs));
        }
        if sizes.len() <= (all / 20).max(2) {
            return 0.0;
        }
        median(sizes).unwrap_or(0.0)
    }

    /// Whether a change belongs to a crowd with the median change `crowd`.
    fn is_of_crowd(&self, alarm: &Alarm, crowd: f64) -> bool {
        let page = self.pages.get(&alarm.context);
        let base = page.and_then(|page| page.base.as_ref());
        let size = base.map_or(0.0, |base| {
            speed::log_size(base, alarm.score_kind, alarm.effect as f64 * 1e-6)
        });
        let stands_out = alarm.kind.is_speed() && size.abs() > STANDS_OUT * crowd;
        crowd > 0.0 && !stands_out
    }

    fn past_of_all(&self, until: Tick) -> Past {
        Sums::of_all(&self.state.shared, until - 60, until).past()
    }
}
