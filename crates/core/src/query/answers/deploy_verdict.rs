//! The verdict on whether a deploy is suspected of a change.

use serde::Serialize;

use tower_pulse_detect::change::{Change, Suspect};
use tower_pulse_model::mark::{Mark, Marks};

/// Whether a deploy is suspected of a change, and which deploy.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct DeployVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// The suspected mark. If no mark is suspected, the last deploy before the change.
    pub mark: Option<Mark>,
    /// Seconds from the mark to the change; 0 if the change began shortly before the mark.
    pub seconds_before: Option<i64>,
    /// The figure of the new version divided by that of the old version, in minutes in which both versions ran.
    pub side_by_side: Option<f64>,
}

/// Whether a deploy is suspected of a change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// A mark is near the beginning of the change.
    Suspected,
    /// The last deploy before the change is not suspected.
    NotTheDeploy,
    /// No deploy was seen before the change.
    NoDeploySeen,
}

impl DeployVerdict {
    pub(super) fn of(change: &Change, marks: &Marks) -> Self {
        let suspected = change.suspects.iter().find_map(|suspect| match suspect {
            Suspect::Deploy {
                mark, side_by_side, ..
            } => Some((mark, *side_by_side)),
            _ => None,
        });
        let before = |mark: &Mark| change.since.saturating_sub(mark.at).max(0);
        let Some((id, side_by_side)) = suspected else {
            let mut deploys = marks.shown().rev().filter(|mark| mark.version.is_some());
            let last = deploys.find(|mark| mark.at <= change.since);
            return Self {
                verdict: match last {
                    Some(_) => Verdict::NotTheDeploy,
                    None => Verdict::NoDeploySeen,
                },
                seconds_before: last.map(before),
                mark: last.cloned(),
                side_by_side: None,
            };
        };
        let mark = marks.shown().find(|mark| mark.id == *id);
        Self {
            verdict: Verdict::Suspected,
            seconds_before: mark.map(before),
            mark: mark.cloned(),
            side_by_side,
        }
    }
}
