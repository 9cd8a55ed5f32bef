//! Recognizes behaviour that is usual for a context at this hour of each week, such as a surge when people come to
//! work. Usual behaviour is not reported as a change.

use super::MINUTE;
use crate::error::Result;
use crate::store::journal::Journal;
use crate::store::profiles;
use tower_pulse_detect::change::ChangeKind;
use tower_pulse_detect::detector::Verdict;
use tower_pulse_model::profile::{ProfileHour, hour_of_week};

/// An hour of the week has a usual figure if the hour was recorded in at least this many weeks.
const ENOUGH_WEEKS: u8 = 3;

/// A change is usual if `ln(usual / then)` is at least this fraction of `ln(now / then)`. `then` is the figure before
/// the change, `now` is the figure during the change, and `usual` is the figure of this hour in earlier weeks.
const EXPLAINED: f64 = 0.7;

/// The most seconds by which usual behaviour may begin before its hour, or end after its hour.
const SHIFTED: i64 = 10 * MINUTE;

/// Whether the figures of the same hour in earlier weeks explain a verdict about the minute that ended at `end`.
pub(super) async fn is_usual(journal: &dyn Journal, verdict: &Verdict, end: i64) -> Result<bool> {
    let figure: fn(&ProfileHour) -> Option<f64> = match verdict.kind {
        ChangeKind::Surging => |hour| hour.requests_per_hour().map(|requests| requests / 60.0),
        ChangeKind::Slower if !verdict.is_tail => ProfileHour::mean,
        _ => return Ok(false),
    };
    let (then, now) = match verdict.kind {
        ChangeKind::Surging => (verdict.then, verdict.now),
        _ => (verdict.mean_then, verdict.mean_now),
    };
    let Some(profile) = profiles::profile(journal, verdict.context, end).await? else {
        return Ok(false);
    };
    let hours = [-SHIFTED, 0, SHIFTED].map(|shift| hour_of_week(end - MINUTE + shift));
    let hours = hours.map(|hour| &profile.hours()[hour]);
    let known = hours.into_iter().filter(|hour| hour.weeks >= ENOUGH_WEEKS);
    let usual = known.filter_map(figure).fold(0.0, f64::max);
    Ok(then > 0.0 && usual > then && (usual / then).ln() >= EXPLAINED * (now / then).ln())
}
