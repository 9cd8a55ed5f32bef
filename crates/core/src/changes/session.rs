//! A session: the detector with its history, and the log of changes. One judgement passes the session to the next
//! judgement.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Findings, JudgementFields, MINUTE, earlier, suspects, usual};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::store::Store;
use crate::store::conditional_write::ConditionalWrite;
use crate::store::journal::Journal;
use crate::store::judgement::{StoredJudged, read_judgement};
use tower_pulse_detect::change::Change;
use tower_pulse_detect::detector::{Coverage, Detector, InstanceMinute, Minute, RECALLED_MINUTES};
use tower_pulse_detect::errors::KnownErrors;
use tower_pulse_detect::last_judgement::LastJudgement;
use tower_pulse_detect::log::Log;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ContextId, Kind, QUEUED};
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::records::{RecordId, sort_by_id};
use tower_pulse_model::tier::FINEST;
use tower_pulse_model::timer_sums::QUEUE;

/// After the detection of a change, its suspects are looked for again in each of this many minutes, because more data
/// arrives.
const SUSPECTS_FOR: i64 = 15;

/// In each minute, at most this many verdicts are compared with profiles, and suspects are looked for in at most this
/// many changes. Both read from the store.
const MAX_EXAMINED: usize = 20;

/// A kind of error is new only if at least a day of the last week was recorded.
const DAY: i64 = 86_400;

/// A judgement of a minute that ends more than this many seconds ahead of the clock was made under a wrong clock.
const MAX_AHEAD: i64 = 3_600;

pub(super) fn is_ahead(until: i64, now: i64) -> bool {
    until > now.saturating_add(MAX_AHEAD)
}

/// The detector and the log after the last judgement, for the next judgement.
pub(super) struct Session {
    fields: JudgementFields,
    pub until: i64,
    detector: Detector,
    pub coverage: Coverage,
    errors: KnownErrors,
    log: Log,
    contexts: HashMap<RecordId, ContextId>,
    /// The spans of time for which the store has recorded data.
    recorded: RecordedTime,
    /// The contexts that count towards `max_contexts`, and the start of the last minute in which each had a request.
    admitted: HashMap<RecordId, i64>,
    scope: JudgedScope,
}

/// Limits the contexts that are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct JudgedScope {
    pub max_contexts: usize,
    /// Whether the queue in front of the service is judged too.
    pub has_queue: bool,
}

type ContextRecords = Vec<(RecordId, Aggregate)>;

struct MinuteRecords {
    start: i64,
    contexts: ContextRecords,
    instances: Vec<(Arc<str>, ContextRecords)>,
}

impl MinuteRecords {
    async fn read(
        store: &dyn Store,
        start: i64,
        contexts: &HashMap<RecordId, ContextId>,
    ) -> Result<Self> {
        let at = [(FINEST.seconds, start)];
        let slices = store.query().slice_records(&at).await?;
        let judged = (slices.into_iter().flatten()).filter(|(id, _)| contexts.contains_key(id));
        let reports = store.query().minute_reports(&[start]).await?;
        let reports = reports.into_iter().flatten();
        // Some reports contain only measurements of the runtime and the process.
        let reports = reports.filter(|(_, report)| !report.contexts.is_empty());
        Ok(Self {
            start,
            contexts: judged.map(|(id, record)| (id, record.sums)).collect(),
            instances: reports
                .map(|(instance, report)| (instance, report.contexts))
                .collect(),
        })
    }

    fn minute(&self) -> Minute<'_> {
        fn borrowed(records: &ContextRecords) -> Vec<(RecordId, &Aggregate)> {
            records.iter().map(|(id, sums)| (*id, sums)).collect()
        }
        let instances = self.instances.iter();
        let instances = instances.map(|(instance, records)| InstanceMinute {
            instance: instance.clone(),
            contexts: borrowed(records),
        });
        Minute {
            start: self.start,
            contexts: borrowed(&self.contexts),
            instances: instances.collect(),
        }
    }
}

impl Session {
    /// Continues after the last judgement in the store, to judge minutes that end at `end` or earlier.
    pub(super) async fn resume(
        store: &dyn Store,
        journal: &dyn Journal,
        (end, now): (i64, i64),
        scope: JudgedScope,
    ) -> Result<Self> {
        let (fields, detector, errors, changes) =
            JudgementFields::new(read_judgement(journal).await?);
        let judged = fields.judged();
        let is_usable = |until: i64| until > 0 && !is_ahead(until, now);
        let detector = Some(detector).filter(|state| is_usable(state.judged_until));
        let judged_until = Some(judged.until).filter(|until| is_usable(*until));
        // Without an earlier judgement, only the last minute is judged.
        let until = judged_until
            .or(detector.as_ref().map(|state| state.judged_until))
            .unwrap_or(end - MINUTE);
        let mut session = Self {
            until: until.max(end - RECALLED_MINUTES * MINUTE),
            detector: Detector::new(detector.unwrap_or_default()),
            coverage: judged.coverage,
            errors,
            fields,
            log: Log::new(changes),
            contexts: HashMap::new(),
            recorded: RecordedTime::default(),
            admitted: HashMap::new(),
            scope,
        };
        session.refresh_contexts(store, end).await?;
        for minute in (1..=RECALLED_MINUTES).rev() {
            let start = session.until - minute * MINUTE;
            let mut records = MinuteRecords::read(store, start, &session.contexts).await?;
            session.admit(&mut records);
            if !records.contexts.is_empty() {
                let recall = move |detector: &mut Detector| detector.recall(&records.minute());
                (session, _) = session.with_detector(recall).await?;
            }
        }
        Ok(session)
    }

    /// Whether this session continues from the judgement `stored`.
    pub(super) fn is_after(&self, stored: &StoredJudged) -> bool {
        self.fields.are_of(stored)
    }

    /// Whether this session can judge the next minutes up to `end`. If the session is more than [`RECALLED_MINUTES`]
    /// behind, a new session must skip the older minutes.
    pub(super) fn can_continue_to(&self, end: i64) -> bool {
        (end - RECALLED_MINUTES * MINUTE..end).contains(&self.until)
    }

    /// Runs the detector on a blocking thread.
    async fn with_detector<T: Send + 'static>(
        mut self,
        run: impl FnOnce(&mut Detector) -> T + Send + 'static,
    ) -> Result<(Self, T)> {
        let mut detector = std::mem::take(&mut self.detector);
        let ran = tokio::task::spawn_blocking(move || {
            let result = run(&mut detector);
            (detector, result)
        });
        // Joining fails if the runtime ends or the detector panics. The next session then reads the history again.
        let (detector, result) = ran.await.map_err(|error| {
            let error = format!("the detector has ended: {error}");
            StoreError::new(StoreErrorKind::Unexpected, error)
        })?;
        self.detector = detector;
        Ok((self, result))
    }

    async fn refresh_contexts(&mut self, store: &dyn Store, now: i64) -> Result<()> {
        let index = store.query().record_index(now).await?;
        self.recorded = index.recorded;
        let has_queue = self.scope.has_queue;
        let judged = (index.contexts.into_iter()).filter(|context| match context.kind {
            Kind::Http => true,
            kind => has_queue && kind == Kind::Timer && *context.name == *QUEUE,
        });
        self.contexts = judged
            .map(|context| (RecordId::new(context.kind, &context.name), context))
            .collect();
        Ok(())
    }

    /// Removes the records of contexts beyond `max_contexts`, and returns their number. Contexts that were judged
    /// before are kept, because a removed context would seem silent.
    fn admit(&mut self, minute: &mut MinuteRecords) -> usize {
        let start = minute.start;
        self.admitted
            .retain(|_, last| start - *last < RECALLED_MINUTES * MINUTE);
        let count = minute.contexts.len();
        // Every instance admits contexts in the same order.
        sort_by_id(&mut minute.contexts);
        minute.contexts.retain(|(id, _)| {
            let has_room = self.admitted.len() < self.scope.max_contexts;
            let is_admitted = has_room || self.admitted.contains_key(id);
            if is_admitted {
                self.admitted.insert(*id, start);
            }
            is_admitted
        });
        count - minute.contexts.len()
    }

    fn name(&self, id: RecordId) -> Option<Arc<str>> {
        let all = ContextId::all();
        if id == RecordId::new(all.kind, &all.name) {
            return Some(all.name);
        }
        let context = self.contexts.get(&id)?;
        Some(match context.kind {
            Kind::Timer => QUEUED.into(),
            _ => context.name.clone(),
        })
    }

    /// Judges the next minute, which ends at `end` or earlier. Returns the session after that minute, the write of the
    /// judgement, and the changes that began or ended. The session must not be used unless the judgement is written.
    pub(super) async fn judge(
        mut self,
        store: &dyn Store,
        end: i64,
        now: i64,
    ) -> Result<(Self, ConditionalWrite, Vec<Change>)> {
        let start = self.until;
        let minute_end = (start + MINUTE).min(end);
        self.refresh_contexts(store, now).await?;
        let mut records = MinuteRecords::read(store, start, &self.contexts).await?;
        let refused = self.admit(&mut records);
        let has_history = self.recorded.seconds(minute_end - 7 * DAY, minute_end) >= DAY;
        let mut errors = std::mem::take(&mut self.errors);
        let (mut session, (verdicts, watched, parts, errors)) = self
            .with_detector(move |detector| {
                let minute = records.minute();
                let mut verdicts = detector.judge(&minute);
                verdicts.extend(errors.judge(&minute, has_history));
                let parts = detector.state().parts();
                (verdicts, detector.watched(), parts, errors)
            })
            .await?;
        session.errors = errors;
        let (mut named, mut compared) = (Vec::new(), 0);
        for verdict in verdicts {
            let Some(context) = session.name(verdict.context) else {
                continue;
            };
            // A new verdict is left out if such behaviour is usual at this hour of the week.
            let is_compared =
                compared < MAX_EXAMINED && !session.log.has_ongoing(&context, &verdict);
            compared += usize::from(is_compared);
            if !is_compared || !usual::is_usual(store.journal(), &verdict, minute_end).await? {
                named.push((context, verdict));
            }
        }
        let difference = session.log.apply(&named, minute_end);
        let examined = difference.began.iter().chain(&difference.ongoing);
        for id in examined.take(MAX_EXAMINED) {
            if let Some(change) = session.log.get_mut(id)
                && minute_end - change.detected <= SUSPECTS_FOR * MINUTE
            {
                suspects::find(store, change, minute_end).await?;
                earlier::compare(store, change, minute_end, &session.recorded).await?;
            }
        }
        let written = [&difference.began, &difference.ongoing, &difference.ended];
        let written = written.into_iter().flatten();
        let mut coverage = session.detector.coverage();
        coverage.contexts += refused;
        let write = session.fields.next(Findings {
            judged: LastJudgement {
                until: minute_end,
                coverage,
                watched: (watched.into_iter())
                    .filter_map(|(id, watched)| Some((session.name(id)?, watched)))
                    .collect(),
                ..LastJudgement::default()
            },
            parts,
            errors: session.errors.parts(),
            changes: written.filter_map(|id| session.log.get(id)).collect(),
            removed: difference.removed,
        });
        session.until = minute_end;
        session.coverage = coverage;
        let events = difference.began.iter().chain(&difference.ended);
        let events = events.filter_map(|id| session.log.get(id)).cloned();
        let events = events.collect();
        Ok((session, write, events))
    }
}
