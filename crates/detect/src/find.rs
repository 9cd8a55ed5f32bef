//! The search for new alarms at the end of a minute: first in each context by itself, then among all findings
//! together, as several contexts that change at once may have one cause.

use std::collections::HashMap;

use super::all;
use super::detector::pages_of;
use super::failing;
use super::history::Tick;
use super::minute::all_id;
use super::page::Page;
use super::past::find_changed_past;
use super::reference::{Past, RANK};
use super::speed;
use super::state::{Alarm, AlarmKind, DetectorState};
use super::step;
use super::traffic::{self, Traffic, TrafficChange};
use super::verdict::Sums;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::timer_sums::queue;

/// Standard deviations of a page that changes with others.
const CROWD: f64 = 3.0;
/// A change that is larger than the usual one of a crowd by this factor is one of its own.
const STANDS_OUT: f64 = 4.0;
/// Minutes that a change of several pages at once must last.
const TOGETHER_LASTING: Tick = 8;

/// The most minutes of a change that another step is compared with.
const LONGEST_BEFORE: Tick = 15;

/// Whether there are too few pages to tell what they share.
pub(crate) fn are_alone(pages: &HashMap<RecordId, Page>) -> bool {
    let compared = pages_of(pages).filter(|(_, page)| page.lens.is_some());
    compared.count() < all::FEWEST_PAGES
}

/// The pages to search, and the state that the alarms are added to.
pub(crate) struct Finder<'a> {
    pub(crate) pages: &'a mut HashMap<RecordId, Page>,
    pub(crate) state: &'a mut DetectorState,
}

impl Finder<'_> {
    /// Opens the new alarms of minute `now`.
    pub(crate) fn search(mut self, now: Tick) {
        let alone = are_alone(self.pages);
        self.step(now);
        let mut begun = Vec::new();
        let mut silent = Vec::new();
        let mut steady = 0;
        let queue = queue();
        for (id, page) in &*self.pages {
            let seen = page.history.last().is_some_and(|last| last.tick == now);
            let stands = |kinds: &[AlarmKind]| {
                let mut alarms = self.state.alarms.iter();
                alarms.any(|alarm| alarm.context == *id && kinds.contains(&alarm.kind))
            };
            if let Some(lens) = page
                .lens
                .as_ref()
                .filter(|_| seen && !stands(&AlarmKind::SPEED))
                && let Some(finding) = speed::search(
                    lens,
                    &self.state.shared.of(*id),
                    now,
                    self.state.last_end(*id, &AlarmKind::SPEED),
                    alone || *id == queue,
                )
            {
                let kind = if finding.faster {
                    AlarmKind::Faster
                } else {
                    AlarmKind::Slower
                };
                begun.push(Alarm {
                    context: *id,
                    kind,
                    since: finding.since,
                    detected: now,
                    score: finding.score,
                    strength: hundredths(finding.strength),
                    effect: (finding.effect * 1e6) as i64,
                    past: lens.past.clone(),
                });
            }
            // It has the traffic of all pages.
            if *id == queue {
                continue;
            }
            let excluded = self
                .state
                .excluded(*id, &[AlarmKind::Surging, AlarmKind::Silent], now);
            let traffic = Traffic::of(&page.history, &self.state.shared, now, &excluded);
            if let Some(traffic) = traffic {
                steady += usize::from(traffic.rate >= 4.0);
                let alarm = |kind, change: TrafficChange| {
                    // The rate is not that of the sums, and their mean is that of these requests.
                    let (requests, minutes) = ((traffic.rate * 1_000.0) as u64, 1_000);
                    let before = Sums::of(&page.history, now - 76, change.since);
                    Alarm {
                        context: *id,
                        kind,
                        since: change.since,
                        detected: now,
                        score: 0,
                        strength: hundredths(change.strength),
                        effect: (change.now * 1e6) as i64,
                        past: Past {
                            minutes,
                            requests,
                            micros: (before.mean() * requests as f64 * 1e6) as u64,
                            ..Past::default()
                        },
                    }
                };
                if seen && !stands(&[AlarmKind::Surging]) {
                    let surge = traffic::surge(
                        &traffic,
                        &self.state.shared,
                        self.state.last_end(*id, &[AlarmKind::Surging]),
                    );
                    begun.extend(surge.map(|surge| alarm(AlarmKind::Surging, surge)));
                }
                if !seen && !stands(&[AlarmKind::Silent]) {
                    let silence = traffic::silence(&traffic);
                    silent.extend(silence.map(|silence| alarm(AlarmKind::Silent, silence)));
                }
            }
            if seen && !stands(&[AlarmKind::Failing]) {
                let excluded = self.state.excluded(*id, &[AlarmKind::Failing], now);
                if let Some(failing) = failing::search(
                    &page.history,
                    now,
                    self.state.last_end(*id, &[AlarmKind::Failing]),
                    &excluded,
                ) {
                    let sums = Sums::of(&page.history, failing.since, now + 1);
                    let before = Sums::of(&page.history, now - 76, failing.since);
                    begun.push(Alarm {
                        context: *id,
                        kind: AlarmKind::Failing,
                        since: failing.since,
                        detected: now,
                        score: 0,
                        strength: hundredths(failing.strength),
                        effect: (sums.error_share() * 1e6) as i64,
                        past: Past {
                            errors: (failing.then * before.requests as f64).round() as u64,
                            ..before.past(before.minutes)
                        },
                    });
                }
            }
        }
        self.open(begun, silent, steady, now);
    }

    /// Opens the alarms of pages that are slower already, and take another step.
    fn step(&mut self, now: Tick) {
        let alarms = self
            .state
            .alarms
            .iter()
            .filter(|alarm| alarm.kind == AlarmKind::Slower && !self.state.is_covered(alarm));
        let mut steps = Vec::new();
        for alarm in alarms {
            let shared = self.state.shared.of(alarm.context);
            // The minutes until it was detected are part of the change itself.
            if let Some(page) = self.pages.get(&alarm.context)
                && let Some((strength, since)) =
                    step::search(&page.history, &shared, (alarm.since, now))
                && since > alarm.detected
            {
                let before = (alarm.since.max(since - LONGEST_BEFORE), since);
                let past = find_changed_past(&page.history, before, &shared);
                steps.extend(past.map(|past| (alarm.context, strength, since, past)));
            }
        }
        for (context, strength, since, past) in steps {
            let Some(page) = self.pages.get_mut(&context) else {
                continue;
            };
            page.freeze(&past, now);
            let shared = self.state.shared.of(context);
            let effect =
                (page.lens.as_ref()).map_or(0.0, |lens| speed::effect_since(lens, &shared, since));
            self.state.alarms.push(Alarm {
                context,
                kind: AlarmKind::Slower,
                since,
                detected: now,
                score: RANK,
                strength: hundredths(strength),
                effect: (effect * 1e6) as i64,
                past,
            });
        }
    }

    /// Opens the alarms that are not only a part of something larger, or of something that may pass.
    fn open(&mut self, mut begun: Vec<Alarm>, silent: Vec<Alarm>, steady: usize, now: Tick) {
        let mut crowds: HashMap<Tick, f64> = HashMap::new();
        begun.retain(|alarm| {
            let lasts = now - alarm.since >= TOGETHER_LASTING;
            let may_pass = alarm.kind.is_speed() || alarm.kind == AlarmKind::Failing;
            if !may_pass || lasts {
                return true;
            }
            let crowd = *crowds
                .entry(alarm.since)
                .or_insert_with(|| self.crowd(alarm.since));
            !self.is_of_crowd(alarm, crowd)
        });
        let silences = self
            .state
            .alarms
            .iter()
            .filter(|alarm| alarm.kind == AlarmKind::Silent);
        match silent.len() >= 2 && 2 * (silent.len() + silences.count()) >= steady {
            false => begun.extend(silent),
            true if self.stands(all_id(), AlarmKind::Silent) => {}
            true => begun.extend(
                silent
                    .into_iter()
                    .min_by_key(|alarm| alarm.since)
                    .map(|alarm| Alarm {
                        context: all_id(),
                        past: self.past_of_all(alarm.since),
                        ..alarm
                    }),
            ),
        }
        let speeds = AlarmKind::SPEED
            .iter()
            .any(|kind| self.stands(all_id(), *kind));
        if let Some(level) = all::search(&self.state.shared, now).filter(|_| !speeds) {
            let kind = if level.effect < 0.0 {
                AlarmKind::Faster
            } else {
                AlarmKind::Slower
            };
            begun.push(Alarm {
                context: all_id(),
                kind,
                since: level.since,
                detected: now,
                score: 0,
                strength: hundredths(level.strength),
                effect: (level.effect * 1e6) as i64,
                past: Past {
                    level: (level.then * 1e6) as i64,
                    ..self.past_of_all(level.since)
                },
            });
        }
        begun.order_by_key(|alarm| (alarm.context, alarm.kind));
        for alarm in begun {
            if let Some(page) = self.pages.get_mut(&alarm.context)
                && alarm.kind.is_speed()
            {
                page.freeze(&alarm.past, now);
            }
            self.state.alarms.push(alarm);
        }
    }

    /// How much several pages changed together in this minute, which may have one cause that will pass: a deploy, a
    /// batch job, a database. As a logarithm of time; 0 if they did not.
    fn crowd(&self, since: Tick) -> f64 {
        let lenses = pages_of(self.pages).filter_map(|(_, page)| page.lens.as_ref());
        let (mut all, mut sizes) = (0, Vec::new());
        for lens in lenses {
            all += 1;
            let size = speed::began(lens, &self.state.shared, since, CROWD);
            sizes.extend(size.map(f64::abs));
        }
        if sizes.len() <= (all / 20).max(2) {
            return 0.0;
        }
        sizes.sort_unstable_by(f64::total_cmp);
        sizes[sizes.len() / 2]
    }

    /// Whether a change is no larger than what several pages have in common since the same minute.
    fn is_of_crowd(&self, alarm: &Alarm, crowd: f64) -> bool {
        let page = self.pages.get(&alarm.context);
        let lens = page.and_then(|page| page.lens.as_ref());
        let size = lens.map_or(0.0, |lens| {
            speed::log_size(lens, alarm.score, alarm.effect as f64 * 1e-6)
        });
        let stands_out = alarm.kind.is_speed() && size.abs() > STANDS_OUT * crowd;
        crowd > 0.0 && !stands_out
    }

    fn stands(&self, id: RecordId, kind: AlarmKind) -> bool {
        let mut alarms = self.state.alarms.iter();
        alarms.any(|alarm| alarm.context == id && alarm.kind == kind)
    }

    fn past_of_all(&self, until: Tick) -> Past {
        let sums = Sums::of_all(&self.state.shared, until - 60, until);
        sums.past(sums.minutes)
    }
}

fn hundredths(strength: f64) -> u32 {
    (strength * 100.0).clamp(0.0, 1e6) as u32
}
