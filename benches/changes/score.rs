//! Compares the verdicts of a detector with the labels.

use std::collections::HashMap;

use crate::labels::{Label, LabelKind, Part};

/// An ongoing verdict on a page, at the end of a minute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ongoing {
    pub(crate) page: usize,
    pub(crate) kind: LabelKind,
    /// The minute in which the change began, if the detector reports that minute.
    pub(crate) since: Option<i64>,
    pub(crate) ratio: f64,
}

/// The minutes after the end of a label in which a new verdict is not a false alarm.
const GRACE_OF_NEW: usize = 5;
/// The minutes after the end of a label in which an older verdict is not a false alarm.
const GRACE_OF_OLD: usize = 15;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Detection {
    pub(crate) label: Label,
    /// The minutes from the start of the label to the end of the minute in which the label was found.
    pub(crate) delay: Option<usize>,
    /// The minutes from the start of the label until the detector first listed the page as *maybe slower*, or found the
    /// label.
    pub(crate) watched: Option<usize>,
    /// The minutes from the true start of the change to the reported start.
    pub(crate) start_error: Option<f64>,
    /// The ratio that was reported last, divided by the true ratio.
    pub(crate) ratio_error: Option<f64>,
    /// The minutes from the end of the label to the end of the verdict.
    pub(crate) clearing: Option<usize>,
}

/// The verdicts of a detector in one or more runs.
#[derive(Debug, Default)]
pub(crate) struct Score {
    pub(crate) page_hours: f64,
    /// The kinds of the verdicts without a label.
    pub(crate) false_alarms: Vec<LabelKind>,
    pub(crate) detections: Vec<Detection>,
    /// The number of times that the detector began to watch a page without a label.
    pub(crate) watched_falsely: usize,
    /// The number of reported surges, true or false.
    pub(crate) reported_surges: usize,
    /// The number of verdicts that cannot have a label, because of their context or their kind.
    pub(crate) other_verdicts: usize,
}

impl Score {
    pub(crate) fn add(&mut self, other: Self) {
        self.page_hours += other.page_hours;
        self.false_alarms.extend(other.false_alarms);
        self.detections.extend(other.detections);
        self.watched_falsely += other.watched_falsely;
        self.reported_surges += other.reported_surges;
        self.other_verdicts += other.other_verdicts;
    }

    pub(crate) fn per_1000(&self) -> f64 {
        self.false_alarms.len() as f64 * 1e3 / self.page_hours
    }

    pub(crate) fn of_kind(&self, kind: LabelKind) -> usize {
        let alarms = self.false_alarms.iter();
        alarms.filter(|alarm| **alarm == kind).count()
    }

    pub(crate) fn select(&self, wanted: impl Fn(&Label) -> bool) -> Vec<Detection> {
        let detections = self
            .detections
            .iter()
            .filter(|detection| wanted(&detection.label));
        detections.copied().collect()
    }
}

/// Follows one detector through one run.
pub(crate) struct Follower {
    detections: Vec<Detection>,
    /// The ongoing verdicts at the end of the previous minute, and whether each has counted as false.
    ongoing: HashMap<(usize, LabelKind), bool>,
    watched: Vec<usize>,
    score: Score,
}

impl Follower {
    pub(crate) fn new(labels: &[Label]) -> Self {
        let detections = labels.iter().map(|label| Detection {
            label: *label,
            delay: None,
            watched: None,
            start_error: None,
            ratio_error: None,
            clearing: None,
        });
        Self {
            detections: detections.collect(),
            ongoing: HashMap::new(),
            watched: Vec::new(),
            score: Score::default(),
        }
    }

    pub(crate) fn watched(&mut self, minute: usize, pages: impl Iterator<Item = usize>) {
        let pages: Vec<_> = pages.collect();
        for page in &pages {
            let mut slower = self.detections.iter_mut().filter(|detection| {
                let label = &detection.label;
                label.page == *page
                    && label.kind == LabelKind::Slower
                    && (label.from..label.to + GRACE_OF_NEW).contains(&minute)
            });
            match slower.next() {
                Some(detection) => {
                    detection
                        .watched
                        .get_or_insert(minute - detection.label.from + 1);
                }
                None => self.score.watched_falsely += usize::from(!self.watched.contains(page)),
            }
        }
        self.watched = pages;
    }

    pub(crate) fn minute(&mut self, minute: usize, verdicts: &[Ongoing]) {
        let mut ongoing = HashMap::new();
        for verdict in verdicts {
            let key = (verdict.page, verdict.kind);
            let before = self.ongoing.get(&key).copied();
            if before.is_none() && verdict.kind == LabelKind::Surge {
                self.score.reported_surges += 1;
            }
            let is_counted = before == Some(true);
            let fits = self.fits_label(minute, verdict, before.is_none());
            if !fits && !is_counted {
                self.score.false_alarms.push(verdict.kind);
            }
            ongoing.insert(key, is_counted || !fits);
        }
        self.ongoing = ongoing;
    }

    /// Whether the verdict is about a label. Updates the detection of that label.
    fn fits_label(&mut self, minute: usize, verdict: &Ongoing, is_new: bool) -> bool {
        let detections = self.detections.iter_mut();
        // On a growing page, a verdict is about the step only if the reported change began at most three minutes before
        // the step.
        let same = detections.filter(|detection| {
            let label = &detection.label;
            let begun = label.part != Part::Step
                || verdict
                    .since
                    .is_some_and(|since| since + 3 >= label.from as i64);
            label.page == verdict.page
                && label.kind == verdict.kind
                && minute >= label.from
                && begun
        });
        let Some(detection) = same.last() else {
            return false;
        };
        let label = detection.label;
        if minute < label.to {
            if detection.delay.is_none() {
                detection.delay = Some(minute - label.from + 1);
                detection.watched.get_or_insert(minute - label.from + 1);
                let error = |since| (since - label.from as i64) as f64;
                detection.start_error = verdict.since.map(error);
            }
            detection.ratio_error = Some(verdict.ratio / label.mean);
            return true;
        }
        if detection.delay.is_some() {
            detection.clearing = Some(minute + 1 - label.to);
        }
        let allowed = if is_new { GRACE_OF_NEW } else { GRACE_OF_OLD };
        minute < label.to + allowed
    }

    pub(crate) fn finish(mut self, page_hours: f64) -> Score {
        self.score.page_hours = page_hours;
        self.score.detections = self.detections;
        self.score
    }
}

pub(crate) fn share_of_found(detections: &[Detection]) -> f64 {
    let found = detections
        .iter()
        .filter(|detection| detection.delay.is_some());
    found.count() as f64 / detections.len() as f64
}

/// A quantile of `figure` over the detections that have this figure.
pub(crate) fn quantile(
    detections: &[Detection],
    q: f64,
    figure: impl Fn(&Detection) -> Option<f64>,
) -> f64 {
    let mut figures: Vec<_> = detections.iter().filter_map(figure).collect();
    figures.sort_unstable_by(f64::total_cmp);
    let rank = (q * figures.len() as f64).ceil() as usize;
    figures
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}

pub(crate) fn is_slower(label: &Label, part: Part) -> bool {
    label.kind == LabelKind::Slower && label.part == part
}
