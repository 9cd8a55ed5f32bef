//! The state of a detector, without the last minutes of the pages. A state that is stored and read again equals the
//! original, because alarms are sorted by their values, and all figures are integers.

use std::borrow::Cow;
use std::ops::Range;

use super::change::ChangeKind;
use super::history::{STORED, Span, Tick};
use super::instances::InstanceState;
use super::reference::{Past, RANK};
use super::statistics::median;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::pack::packed;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::timer_sums::queue;

impl ChangeKind {
    /// The kinds of changes in how long requests take.
    pub(crate) const SPEED: [Self; 2] = [Self::Slower, Self::Faster];

    pub(crate) fn is_speed(self) -> bool {
        Self::SPEED.contains(&self)
    }

    pub(crate) fn of_speed(is_faster: bool) -> Self {
        Self::SPEED[usize::from(is_faster)]
    }
}

packed! {
    /// An ongoing change.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Alarm {
        pub(crate) context: RecordId,
        /// Any kind but [`ChangeKind::Instance`] and [`ChangeKind::NewError`].
        pub(crate) kind: ChangeKind,
        /// The first minute that is different.
        pub(crate) since: Tick,
        /// The minute in which the change was detected.
        pub(crate) detected: Tick,
        /// Index of the score (`RANK`, `LOCATION`, `TAIL`, `MIX`) that showed the change; only for slower and faster.
        pub(crate) score_kind: usize,
        /// The strength in hundredths of a standard deviation.
        pub(crate) strength: u32,
        /// In millionths. For slower and faster: the effect on the mean score, or, for `<all>`, on the level. For other
        /// kinds: the new requests per minute, or the new share of errors or 4xx.
        pub(crate) effect: i64,
        /// The past that the context is compared with while the alarm is ongoing.
        pub(crate) past: Past,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Ended {
        pub(crate) context: RecordId,
        pub(crate) kind: ChangeKind,
        pub(crate) from: Tick,
        /// The last minute.
        pub(crate) to: Tick,
        /// The past with which the context is compared until a new past is found.
        pub(crate) past: Past,
    }

    /// The figures of all contexts together in a minute.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct SharedMinute {
        pub(crate) tick: Tick,
        /// The [level](super::all): the logarithm of the factor by which all pages are slower, in millionths.
        pub(crate) level: i64,
        /// The logarithm of the traffic divided by the traffic of the past, in millionths.
        pub(crate) traffic: i64,
        pub(crate) requests: u64,
        pub(crate) micros: u64,
    }
}

impl SharedMinute {
    /// The level, as a logarithm.
    pub(crate) fn level(&self) -> f64 {
        self.level as f64 * 1e-6
    }
}

impl Alarm {
    /// An alarm that is detected in minute `now`, with its strength in standard deviations.
    pub(crate) fn new(
        (context, kind): (RecordId, ChangeKind),
        (since, now): (Tick, Tick),
        (strength, effect): (f64, f64),
        past: Past,
    ) -> Self {
        Self {
            context,
            kind,
            since,
            detected: now,
            score_kind: RANK,
            strength: hundredths(strength),
            effect: (effect * 1e6) as i64,
            past,
        }
    }
}

pub(crate) fn hundredths(strength: f64) -> u32 {
    (strength * 100.0).clamp(0.0, 1e6) as u32
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SharedMinutes(pub(super) Vec<SharedMinute>);

impl SharedMinutes {
    /// The shared figures that a context is compared with. The queue in front of a service is not a page, so its shared
    /// level is zero.
    pub(crate) fn of(&self, context: RecordId) -> Cow<'_, Self> {
        if context != queue() {
            return Cow::Borrowed(self);
        }
        let mut minutes = self.clone();
        minutes.0.iter_mut().for_each(|shared| shared.level = 0);
        Cow::Owned(minutes)
    }

    /// Adds a minute that is later than all others.
    pub(crate) fn push(&mut self, shared: SharedMinute) {
        self.0.retain(|old| old.tick > shared.tick - STORED - 4);
        self.0.push(shared);
    }

    pub(crate) fn last(&self) -> Option<&SharedMinute> {
        self.0.last()
    }

    fn at(&self, tick: Tick) -> Option<&SharedMinute> {
        let index = self.0.binary_search_by_key(&tick, |shared| shared.tick);
        index.ok().map(|index| &self.0[index])
    }

    pub(crate) fn within(
        &self,
        range: Range<Tick>,
    ) -> impl DoubleEndedIterator<Item = &SharedMinute> {
        let minutes = self.0.iter();
        minutes.filter(move |shared| range.contains(&shared.tick))
    }

    /// The level in a minute, as a logarithm. A minute that was not judged gets the level of the last judged minute.
    pub(crate) fn level(&self, tick: Tick) -> f64 {
        let shared = self.at(tick).or(self.0.last());
        shared.map_or(0.0, SharedMinute::level)
    }

    /// The number of judged minutes after `tick`. Minutes in which nothing was recorded do not count.
    pub(crate) fn judged_after(&self, tick: Tick) -> usize {
        self.0.len() - self.0.partition_point(|shared| shared.tick <= tick)
    }

    /// The median level between two minutes, the second excluded.
    pub(crate) fn median_level(&self, from: Tick, to: Tick) -> Option<f64> {
        median(self.within(from..to).map(SharedMinute::level))
    }

    pub(crate) fn traffic(&self, tick: Tick) -> f64 {
        let shared = self.at(tick);
        shared.map_or(0.0, |shared| shared.traffic as f64 * 1e-6)
    }
}

/// The state from which another detector can resume, once the last minutes were
/// [recalled](super::detector::Detector::recall).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetectorState {
    /// The end of the last minute that was judged, in Unix seconds.
    pub judged_until: i64,
    pub(crate) alarms: Vec<Alarm>,
    pub(crate) ended: Vec<Ended>,
    pub(crate) shared: SharedMinutes,
    pub(crate) instances: InstanceState,
}

/// For this many minutes after the end of a further slowdown, the page's earlier slowdown is not reported, because it
/// may be ending too.
const SETTLING: Tick = 2;

impl DetectorState {
    pub(crate) fn ongoing(
        &self,
        id: RecordId,
        kinds: &[ChangeKind],
    ) -> impl Iterator<Item = &Alarm> {
        let alarms = self.alarms.iter();
        alarms.filter(move |alarm| alarm.context == id && kinds.contains(&alarm.kind))
    }

    pub(crate) fn has_ongoing(&self, id: RecordId, kinds: &[ChangeKind]) -> bool {
        self.ongoing(id, kinds).next().is_some()
    }

    pub(crate) fn ended(
        &self,
        id: RecordId,
        kinds: &[ChangeKind],
    ) -> impl DoubleEndedIterator<Item = &Ended> {
        let ended = self.ended.iter();
        ended.filter(move |ended| ended.context == id && kinds.contains(&ended.kind))
    }

    /// Whether an alarm is reported at the end of minute `now`: no later slowdown is ongoing or has just ended.
    pub(crate) fn is_reported(&self, alarm: &Alarm, now: Tick) -> bool {
        let is_settling = self
            .ended(alarm.context, &[alarm.kind])
            .any(|ended| ended.from > alarm.since && now.saturating_sub(ended.to) < SETTLING);
        !is_settling && !self.is_covered(alarm)
    }

    /// Whether a later slowdown of the same page is ongoing.
    pub(crate) fn is_covered(&self, alarm: &Alarm) -> bool {
        let mut others = self.ongoing(alarm.context, &[ChangeKind::Slower]);
        alarm.kind == ChangeKind::Slower && others.any(|other| other.since > alarm.since)
    }

    /// Sorts alarms: by their detection or end, then by context.
    pub(crate) fn sort(&mut self) {
        self.alarms
            .order_by_key(|alarm| (alarm.detected, alarm.context, alarm.kind as u8));
        self.ended
            .order_by_key(|ended| (ended.to, ended.context, ended.kind as u8, ended.from));
        self.instances.sort();
    }

    /// The spans of minutes that a context's past must not contain.
    pub(crate) fn excluded(&self, id: RecordId, kinds: &[ChangeKind], now: Tick) -> Vec<Span> {
        let alarms = self.ongoing(id, kinds).map(|alarm| (alarm.since, now));
        let ended = self.ended(id, kinds).map(|ended| (ended.from, ended.to));
        alarms.chain(ended).collect()
    }

    /// The end of the last alarm of a context. Minutes until this end are not part of a new alarm.
    pub(crate) fn last_end(&self, id: RecordId, kinds: &[ChangeKind]) -> Tick {
        let ends = self.ended(id, kinds).map(|ended| ended.to);
        ends.max().unwrap_or(Tick::MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::context::Kind;

    fn minutes(ticks: &[Tick]) -> SharedMinutes {
        let ticks = ticks.iter();
        let minutes = ticks.map(|tick| SharedMinute {
            tick: *tick,
            level: 100_000 * i64::from(*tick),
            ..SharedMinute::default()
        });
        SharedMinutes(minutes.collect())
    }

    #[test]
    fn minutes_without_requests_are_not_judged() {
        let shared = minutes(&[3, 4, 6, 8, 9]);
        let after = [2, 3, 5, 8, 9].map(|tick| shared.judged_after(tick));
        assert_eq!(after, [5, 4, 3, 1, 0]);
        assert_eq!(shared.median_level(4, 9), Some(0.6));
        assert_eq!(shared.median_level(10, 12), None);
    }

    #[test]
    fn the_queue_shares_no_level_with_the_pages() {
        let shared = minutes(&[3, 4]);
        let page = RecordId::new(Kind::Http, "GET /");
        assert_eq!(*shared.of(page), shared);
        let of_queue = shared.of(queue()).into_owned();
        let of_queue: Vec<_> = of_queue.0.iter().map(|m| (m.tick, m.level)).collect();
        assert_eq!(of_queue, [(3, 0), (4, 0)]);
    }
}
