//! The detector: finds at the end of each minute which contexts have changed.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::change::ChangeKind;
use super::find;
use super::history::{Tick, tick};
use super::instances::InstanceDetector;
use super::minute::all_id;
pub use super::minute::{Cost, Coverage, InstanceMinute, Minute, Verdict, Watched, failed};
use super::page::Page;
pub use super::state::DetectorState;
use super::state::{Alarm, Ended, SharedMinute, SharedMinutes, hundredths};
use super::{all, failing, speed, traffic};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::timer_sums::queue;

/// The number of past minutes that a new detector must [recall](Detector::recall) before it judges.
pub const RECALLED_MINUTES: i64 = 90;

const MAX_WATCHED: usize = 10;

/// Finds changes, minute by minute.
///
/// The first verdict on a context can come after about half an hour. A verdict needs a past of at least 15 minutes with
/// requests, which ends at least 10 minutes before the judged minute. After 70 minutes the detector is most sensitive.
#[derive(Default)]
pub struct Detector {
    pub(super) state: DetectorState,
    pub(super) pages: HashMap<RecordId, Page>,
    instances: InstanceDetector,
    last: Option<Tick>,
}

/// All pages except `<queue>`.
pub(crate) fn pages_of(
    pages: &HashMap<RecordId, Page>,
) -> impl Iterator<Item = (&RecordId, &Page)> + Clone {
    let queue = queue();
    pages.iter().filter(move |(id, _)| **id != queue)
}

/// Minutes after which the alarms of a page without requests end, except silence. Minutes in which no page had a
/// request do not count.
const UNSEEN: usize = 20;
/// Minutes after which an alarm ends, because the change has become usual.
const USUAL_AFTER: Tick = 24 * 60;
/// Minutes for which an ended alarm is remembered.
const REMEMBERED: Tick = 90;
/// If a minute is more than this number of minutes before the last one, the clock was set back, and all histories begin
/// anew.
const CLOCK_SET: Tick = 90;

impl Detector {
    /// A detector that resumes from a state. Recall the minutes before [`judged_until`](DetectorState::judged_until),
    /// oldest first, and then judge the next minute.
    pub fn new(state: DetectorState) -> Self {
        Self {
            instances: InstanceDetector::new(state.instances.clone()),
            state,
            ..Self::default()
        }
    }

    /// Adds a minute that another detector has judged.
    pub fn recall(&mut self, minute: &Minute<'_>) {
        self.instances.recall(minute.start, &minute.instances);
        let now = tick(minute.start);
        let is_later = self.add(now, minute) && !minute.contexts.is_empty();
        let last = self.state.shared.last();
        if is_later && last.is_none_or(|shared| shared.tick < now) {
            self.state.shared.push(SharedMinute {
                tick: now,
                ..SharedMinute::default()
            });
        }
    }

    /// Judges a minute that has ended. Returns the verdicts that are ongoing at the end of the minute. Minutes must be
    /// in order; minutes without any request may be left out.
    pub fn judge(&mut self, minute: &Minute<'_>) -> Vec<Verdict> {
        let now = tick(minute.start);
        self.state.judged_until = minute.start.saturating_add(60);
        let is_later = self.add(now, minute);
        self.refresh(self.last.unwrap_or(now));
        if is_later && !minute.contexts.is_empty() {
            self.estimate_shared(now, minute);
            self.end_alarms(now);
            self.search(now);
        }
        let mut verdicts = self.verdicts(now);
        let of_instances = self.instances.judge(minute.start, &minute.instances);
        self.state.instances = self.instances.state.clone();
        self.state.sort();
        verdicts.retain(|verdict| {
            verdict.kind != ChangeKind::Slower || !self.instances.explains(verdict)
        });
        verdicts.extend(of_instances);
        verdicts
    }

    /// The contexts that are likely slower at the end of the last judged minute, most certain first, at most ten.
    pub fn watched(&self) -> Vec<(RecordId, Watched)> {
        let Some(now) = self.last else {
            return Vec::new();
        };
        let are_alone = find::are_alone(&self.pages);
        let has_ongoing = |id: RecordId| self.state.has_ongoing(id, &ChangeKind::SPEED);
        let pages = self.pages.iter().filter(|(id, _)| !has_ongoing(**id));
        let mut likely: Vec<_> = pages
            .filter_map(|(id, page)| {
                let after = self.state.last_end(*id, &ChangeKind::SPEED);
                let base = page.base.as_ref()?;
                let shared = self.state.shared.of(*id);
                let is_alone = are_alone || *id == queue();
                let finding = speed::watch(base, &shared, now, after, is_alone)?;
                let size = speed::size(base, &shared, finding.score_kind, finding.since);
                let ratio = match size.is_tail {
                    true => speed::log_size(base, finding.score_kind, finding.effect).exp(),
                    false => size.body,
                };
                let watched = Watched {
                    since: i64::from(finding.since) * 60,
                    ratio,
                    is_tail: size.is_tail,
                };
                (ratio > 1.0).then_some((finding.strength, *id, watched))
            })
            .collect();
        likely.order_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        likely.truncate(MAX_WATCHED);
        let likely = likely.into_iter();
        likely.map(|(_, id, watched)| (id, watched)).collect()
    }

    /// The state from which another detector can resume.
    pub fn state(&self) -> &DetectorState {
        &self.state
    }

    /// How much of the traffic this detector can compare.
    pub fn coverage(&self) -> Coverage {
        let Some(now) = self.last else {
            return Coverage::default();
        };
        let pages = pages_of(&self.pages).map(|(_, page)| page);
        let seen = |page: &&Page| page.history.last().is_some_and(|last| last.tick > now - 60);
        let seen: Vec<_> = pages.filter(seen).collect();
        let judged = self.state.shared.0.iter().map(|shared| shared.tick);
        let first = judged.clone().min().unwrap_or(now).max(now - 59);
        let judged = judged.filter(|tick| *tick >= first).count();
        Coverage {
            contexts: seen.len(),
            compared: seen.iter().filter(|page| page.base.is_some()).count(),
            gaps: ((now - first + 1) as usize).saturating_sub(judged),
        }
    }

    /// Adds a minute to the histories. Returns `false` if the minute is the last one, or at most [`CLOCK_SET`] minutes
    /// before it.
    fn add(&mut self, now: Tick, minute: &Minute<'_>) -> bool {
        if let Some(last) = self.last {
            if now < last - CLOCK_SET {
                self.pages.clear();
                self.state.shared = SharedMinutes::default();
                self.state.alarms.clear();
                self.state.ended.clear();
            } else if now <= last {
                return false;
            }
        }
        self.last = Some(now);
        for (id, sums) in &minute.contexts {
            let page = self.pages.entry(*id).or_default();
            // A context that is given twice counts once.
            if page.history.last().is_none_or(|last| last.tick < now) {
                page.history.push(now, sums);
            }
        }
        let oldest = now - super::history::STORED + 1;
        self.pages.retain(|_, page| {
            page.history.prune(oldest);
            !page.history.minutes.is_empty()
        });
        true
    }

    /// Renews the pasts that are due, and scores the last minute.
    fn refresh(&mut self, now: Tick) {
        for (id, page) in &mut self.pages {
            let alarms = self.state.ongoing(*id, &ChangeKind::SPEED);
            match alarms.max_by_key(|alarm| alarm.since) {
                Some(alarm) if !page.is_frozen() => page.freeze(&alarm.past, now),
                Some(_) => {}
                None => {
                    let excluded = self.state.excluded(*id, &ChangeKind::SPEED, now);
                    let ended = self.state.ended(*id, &ChangeKind::SPEED).next_back();
                    let before = ended.map(|ended| (ended.to, &ended.past));
                    let shared = self.state.shared.of(*id);
                    let number = u64::from_be_bytes(id.to_bytes());
                    page.renew(number, now, &shared, &excluded, before);
                }
            }
            page.score_last(now);
        }
    }

    /// Estimates the level of the minute, and how much the traffic of all pages differs from their pasts.
    fn estimate_shared(&mut self, now: Tick, minute: &Minute<'_>) {
        let (mut levels, mut traffic) = (Vec::new(), Vec::new());
        for (_, page) in pages_of(&self.pages) {
            let Some(base) = &page.base else { continue };
            if !page.is_frozen() {
                levels.extend(speed::level_of(base, now));
            }
            let rate = base.past.requests as f64 / f64::from(base.past.minutes.max(1));
            let last = page.history.last().filter(|last| last.tick == now);
            let requests = last.map_or(0.0, |last| f64::from(last.requests));
            if rate >= 4.0 {
                traffic.push((((requests + 0.5) / (rate + 0.5)).ln(), 1.0));
            }
        }
        let before = self.state.shared.last().map_or(0, |shared| shared.level);
        let level = all::weighted_median(&mut levels).map_or(before, |level| (level * 1e6) as i64);
        let traffic = all::weighted_median(&mut traffic).unwrap_or(0.0);
        let pages = minute.contexts.iter().filter(|(id, _)| *id != queue());
        let sums = pages.map(|(_, sums)| sums.times);
        self.state.shared.push(SharedMinute {
            tick: now,
            level,
            traffic: (traffic * 1e6) as i64,
            requests: (sums.clone()).fold(0, |all, times| all.saturating_add(times.count)),
            micros: sums.fold(0, |all, times| all.saturating_add(times.sum / 1_000)),
        });
    }

    /// Ends the alarms that are over. While a page has a later slowdown, its earlier alarms of slowness do not end.
    fn end_alarms(&mut self, now: Tick) {
        let mut alarms = std::mem::take(&mut self.state.alarms);
        alarms.order_by_key(|alarm| Reverse(alarm.since));
        for mut alarm in alarms {
            if alarm.kind.is_speed()
                && let Some(page) = self.pages.get_mut(&alarm.context)
                && page.base.is_none()
            {
                page.freeze(&alarm.past, now);
            }
            let is_old = now.saturating_sub(alarm.detected) > USUAL_AFTER;
            if self.state.is_covered(&alarm) || !is_old && !self.follow(&mut alarm, now) {
                self.state.alarms.push(alarm);
                continue;
            }
            if let Some(page) = self.pages.get_mut(&alarm.context)
                && alarm.kind.is_speed()
            {
                page.remove_base();
            }
            self.state.ended.push(Ended {
                context: alarm.context,
                kind: alarm.kind,
                from: alarm.since,
                to: now,
                past: alarm.past,
            });
        }
        let ended = &mut self.state.ended;
        ended.retain(|ended| now.saturating_sub(ended.to) <= REMEMBERED);
    }

    /// Updates the strength of an alarm, and returns whether the alarm is over.
    fn follow(&self, alarm: &mut Alarm, now: Tick) -> bool {
        let effect = alarm.effect as f64 * 1e-6;
        let shared = &self.state.shared;
        if alarm.context == all_id() {
            let then = alarm.past.level as f64 * 1e-6;
            return match alarm.kind {
                ChangeKind::Silent => shared.last().is_some_and(|last| last.traffic > -1_000_000),
                _ => all::is_over(shared, then, effect),
            };
        }
        let Some(page) = self.pages.get(&alarm.context) else {
            // A page without requests is removed after a while. Of its alarms, only an alarm of silence continues.
            return alarm.kind != ChangeKind::Silent;
        };
        let seen = page.history.last().map_or(alarm.since, |last| last.tick);
        if alarm.kind != ChangeKind::Silent && shared.judged_after(seen) > UNSEEN {
            return true;
        }
        match alarm.kind {
            ChangeKind::Slower | ChangeKind::Faster => {
                let Some(base) = page.base.as_ref().filter(|_| seen == now) else {
                    return false;
                };
                let shared = shared.of(alarm.context);
                let (is_over, strength) =
                    speed::follow(base, &shared, alarm.score_kind, alarm.since, effect);
                alarm.strength = alarm.strength.max(hundredths(strength));
                is_over
            }
            ChangeKind::Surging => {
                let counts = traffic::recent(&page.history, shared, 3);
                traffic::surge_is_over(&counts, alarm.past.rate(), effect)
            }
            ChangeKind::Silent | ChangeKind::Instance | ChangeKind::NewError => {
                let counts = traffic::recent(&page.history, shared, 2);
                counts.iter().map(|(_, count)| count).sum::<f64>()
                    >= (0.3 * alarm.past.rate()).max(1.0)
            }
            ChangeKind::Failing | ChangeKind::Refusing => {
                let minutes = page.history.minutes_for(alarm.kind);
                failing::is_over(&minutes, now, alarm.past.error_share(), effect)
            }
        }
    }

    fn verdicts(&self, now: Tick) -> Vec<Verdict> {
        let alarms = self.state.alarms.iter();
        let alarms = alarms.filter(|alarm| self.state.is_reported(alarm, now));
        let mut verdicts: Vec<_> = alarms.map(|alarm| self.verdict(alarm, now)).collect();
        verdicts.order_by_key(|verdict| (verdict.context, verdict.kind as u8));
        verdicts
    }
}
