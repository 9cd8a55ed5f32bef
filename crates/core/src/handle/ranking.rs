//! Rankings within a moving window, as an application uses them.

use std::time::Duration;

use super::{Handle, refusal};
use crate::error::{BuildError, StoreError};
use crate::recorder::RankingEntry;
use crate::store::read::RankedId;
use crate::store::table::Table;
use crate::store::{RankingPage, RankingPlace, RankingQuery};
use std::sync::Arc;
use tower_pulse_model::context::{clean_name, escape_hidden};
use tower_pulse_model::ranking::{MAX_RANKING_SLICES, RankingSpec};
use tower_pulse_model::slice::Precision;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// The longest period, in seconds.
const MAX_PERIOD: u64 = 366 * DAY;
/// The most slices of a window: a day by the minute has 1,440.
const MAX_SLICES: u64 = MAX_RANKING_SLICES as u64;
const MAX_IDS: usize = 100_000;
/// The longest name, in bytes.
const MAX_NAME: usize = 256;

/// Configures a [`Ranking`]. `Pulse::ranking` makes one.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct RankingBuilder {
    handle: Handle,
    name: String,
    period: Duration,
    interval: Duration,
    max_ids: usize,
}

impl RankingBuilder {
    /// A ranking of 24 hours by the hour.
    #[doc(hidden)]
    pub fn new(handle: Handle, name: &str) -> Self {
        Self {
            handle,
            name: name.to_owned(),
            period: Duration::from_secs(DAY),
            interval: Duration::from_secs(HOUR),
            max_ids: 10_000,
        }
    }

    /// The length of the window: a multiple of the interval, up to 366 days and 1,500 intervals. 24 hours by default.
    /// If instances use different periods, the longest period applies, until no instance with this period has added
    /// anything for the length of the period.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// The length of an interval, by which the window moves: 1, 2, 3, 4, 5, 6, 10, 12, 15, 20 or 30 minutes, 1,
    /// 2, 3, 4, 6, 8 or 12 hours, or a multiple of 24 hours. 1 hour by default. Intervals begin at multiples of
    /// their length since the Unix epoch, in UTC.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// The most ids, 1 to 100,000; 10,000 by default. If a ranking has more ids, those with the smallest counts in the
    /// oldest interval leave the ranking, and `dropped` in `api/rankings` grows. If too many new ids wait
    /// for a flush, some never enter the ranking. The ids with the oldest last addition are left out first, and among
    /// these the ids with the smallest sums.
    pub fn max_ids(mut self, ids: usize) -> Self {
        self.max_ids = ids;
        self
    }

    /// The ranking. All callers that build a ranking of this name and configuration share the ranking.
    ///
    /// # Errors
    /// A value is not allowed; this process has built a ranking of this name with another configuration; or this
    /// process has 100 rankings already. The error says what is allowed.
    pub fn build(self) -> Result<Ranking, BuildError> {
        check_name(&self.name)?;
        let spec = checked_spec(self.interval, self.period, self.max_ids)?;
        let recorder = &self.handle.0.stages.recorder;
        let entry = recorder.ranking(&escape_hidden(&self.name), spec)?;
        Ok(Ranking {
            handle: self.handle,
            entry,
        })
    }
}

fn check_name(name: &str) -> Result<(), BuildError> {
    let bytes = escape_hidden(name).len();
    let is_long = bytes > MAX_NAME;
    if name.is_empty() || is_long || name.chars().any(char::is_control) {
        let allowed = "must have 1 to 256 bytes without control characters";
        let mut value = format!("{name:?}");
        if is_long {
            value = format!("a name of {bytes} bytes");
        }
        return Err(BuildError::new("ranking", value, allowed));
    }
    Ok(())
}

fn checked_spec(
    interval: Duration,
    period: Duration,
    max_ids: usize,
) -> Result<RankingSpec, BuildError> {
    let (slice, window) = (interval.as_secs(), period.as_secs());
    let is_allowed = match slice {
        _ if interval.subsec_nanos() > 0 => false,
        0..HOUR => slice.is_multiple_of(MINUTE) && HOUR.is_multiple_of(slice),
        HOUR..DAY => {
            let hours = [1, 2, 3, 4, 6, 8, 12];
            slice.is_multiple_of(HOUR) && hours.contains(&(slice / HOUR))
        }
        _ => slice.is_multiple_of(DAY) && slice <= MAX_PERIOD,
    };
    if !is_allowed {
        let allowed = "must be 1, 2, 3, 4, 5, 6, 10, 12, 15, 20 or 30 minutes, 1, 2, 3, 4, 6, 8 or 12 hours, \
                       or a multiple of 24 hours up to 366 days";
        let value = format!("{interval:?}");
        return Err(BuildError::new("interval", value, allowed));
    }
    let slices = window / slice;
    if period.subsec_nanos() > 0
        || !(1..=MAX_SLICES).contains(&slices)
        || !window.is_multiple_of(slice)
        || window > MAX_PERIOD
    {
        let most = (MAX_PERIOD / slice).min(MAX_SLICES);
        let allowed =
            format!("1 to {most} times the interval of {slice} s, up to 366 days, is allowed");
        return Err(BuildError::new("period", format!("{period:?}"), allowed));
    }
    if !(1..=MAX_IDS).contains(&max_ids) {
        let allowed = format!("1 to {MAX_IDS} is allowed");
        return Err(BuildError::new("max_ids", max_ids, allowed));
    }
    // All three numbers are bounded above, and fit into 32 bits.
    Ok(RankingSpec {
        interval: slice as u32,
        slices: slices as u32,
        max_ids: max_ids as u32,
    })
}

/// Ids, sorted by the sums of their additions in a moving window, such as posts by their likes in the past 24 hours.
/// Cheap to clone. All clones, and all rankings of this name in the fleet, are the same ranking.
///
/// The window consists of the last `period / interval` intervals, including the current one. An id whose sum is 0 is
/// not in the ranking. Ids are cleaned like contexts: invisible characters, and characters that change the direction of
/// text, are escaped. An id of more than 256 bytes is cut, and ends in a hash. A sum is exact up to 2<sup>53</sup>.
#[derive(Clone, Debug)]
pub struct Ranking {
    handle: Handle,
    entry: Arc<RankingEntry>,
}

/// The error of a change that the store may not have. The first field of each variant is the name of the ranking.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RankingError {
    /// The store did not confirm the change. The change stays recorded, and is sent again automatically: do not repeat
    /// the change.
    Unconfirmed(String, StoreError),
    /// The change, or a part of the change, was refused, because a key of the ranking holds a foreign value.
    Refused(String, StoreError),
    /// The `Pulse` is shut down. The change was dropped, unless the change was made while the shutdown began.
    ShutDown(String),
}

impl std::fmt::Display for RankingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unconfirmed(ranking, _) => write!(
                f,
                "it is unknown whether the store has the change of the ranking {ranking:?}: the change stays recorded, \
                 and is sent again automatically"
            ),
            Self::Refused(ranking, source) => {
                write!(
                    f,
                    "the change of the ranking {ranking:?} is refused: {source}"
                )
            }
            Self::ShutDown(ranking) => write!(
                f,
                "the change of the ranking {ranking:?} may be dropped: the Pulse is shut down"
            ),
        }
    }
}

impl std::error::Error for RankingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unconfirmed(_, source) | Self::Refused(_, source) => Some(source),
            Self::ShutDown(_) => None,
        }
    }
}

impl Ranking {
    /// The name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Adds `n`, which may be negative, to an id in the current interval. Does no I/O: the next flush sends the
    /// addition.
    pub fn add(&self, id: &str, n: i64) {
        self.entry.add(id, n);
    }

    /// Adds `n` to an id, and returns when all instances can read the addition. Callers at the same time share a flush.
    ///
    /// # Errors
    /// See [`RankingError`]. An unconfirmed addition stays recorded and is sent again: do not repeat the addition.
    ///
    /// # Cancel safety
    /// `n` is added by the first poll. Dropping the future later loses nothing and counts nothing twice.
    pub async fn add_now(&self, id: &str, n: i64) -> Result<(), RankingError> {
        self.entry.add(id, n);
        self.flush().await
    }

    /// Removes an id, and everything that was added to the id, including additions that wait in this process. Returns
    /// when no instance can read the id any more. Later additions to the id count again.
    ///
    /// # Errors
    /// See [`RankingError`]. An unconfirmed removal stays recorded and is sent again.
    ///
    /// # Cancel safety
    /// The same as for [`add_now`](Self::add_now).
    pub async fn remove(&self, id: &str) -> Result<(), RankingError> {
        self.entry.remove(id);
        self.flush().await
    }

    async fn flush(&self) -> Result<(), RankingError> {
        let name = || self.entry.name.to_string();
        // The shutdown has released the fold lease. A flush would acquire the lease again.
        if self.entry.is_closed() {
            return Err(RankingError::ShutDown(name()));
        }
        let flushed = self.handle.flush_all().await;
        // If a shutdown has begun during the flush, the result of the flush does not show whether the change was
        // stored.
        if self.entry.is_closed() {
            return Err(RankingError::ShutDown(name()));
        }
        let refused = flushed.map_err(|source| RankingError::Unconfirmed(name(), source))?;
        match refused.iter().rfind(|problem| self.has_key(&problem.key)) {
            Some(problem) => {
                let source = refusal(std::slice::from_ref(problem));
                Err(RankingError::Refused(name(), source))
            }
            None => Ok(()),
        }
    }

    /// Whether an addition made now is written to this key.
    fn has_key(&self, key: &str) -> bool {
        let interval = Precision::new(self.entry.spec.interval, 1);
        let (ranking, start) = (self.entry.name.clone(), interval.slice(self.entry.now()));
        let slice = Table::RankingSlice {
            ranking: ranking.clone(),
            start,
        };
        let tables = [slice, Table::RankingTotals { ranking }, Table::Rankings];
        let journal = self.handle.0.stages.store.journal();
        tables.iter().any(|table| journal.name_of(table) == key)
    }

    /// At most `limit` ids from `offset` on, those with the highest sums first. Ids with equal sums are in descending
    /// order of their bytes.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn top(&self, offset: usize, limit: usize) -> Result<Vec<RankedId>, StoreError> {
        let page = self.page(offset, limit, None).await?;
        Ok(page.map(|page| page.top).unwrap_or_default())
    }

    /// The sum of an id; `None` if the id is not in the ranking.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn score(&self, id: &str) -> Result<Option<i64>, StoreError> {
        Ok(self.place(id).await?.map(|place| place.score))
    }

    /// The number of ids before an id; `None` if the id is not in the ranking.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn rank(&self, id: &str) -> Result<Option<usize>, StoreError> {
        Ok(self.place(id).await?.map(|place| place.rank))
    }

    /// The number of ids.
    ///
    /// # Errors
    /// The store cannot be read.
    #[allow(clippy::len_without_is_empty, reason = "it asks the store")]
    pub async fn len(&self) -> Result<usize, StoreError> {
        let page = self.page(0, 0, None).await?;
        Ok(page.map_or(0, |page| page.total))
    }

    async fn place(&self, id: &str) -> Result<Option<RankingPlace>, StoreError> {
        let page = self.page(0, 0, Some(id)).await?;
        Ok(page.and_then(|page| page.places.first().copied().flatten()))
    }

    async fn page(
        &self,
        offset: usize,
        limit: usize,
        id: Option<&str>,
    ) -> Result<Option<RankingPage>, StoreError> {
        let query = RankingQuery {
            name: self.entry.name.to_string(),
            now: self.entry.now(),
            offset,
            limit,
            ids: id
                .map(|id| clean_name(id).into_owned())
                .into_iter()
                .collect(),
        };
        self.handle.0.stages.store.query().ranking(&query).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `interval` and `period` are in seconds.
    fn spec(interval: u64, period: u64, max_ids: usize) -> Result<RankingSpec, String> {
        let [interval, period] = [interval, period].map(Duration::from_secs);
        checked_spec(interval, period, max_ids).map_err(|error| error.to_string())
    }

    #[test]
    fn an_interval_divides_an_hour_or_has_an_allowed_number_of_hours() {
        let minutes = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30].map(|n| n * MINUTE);
        let hours = [1, 2, 3, 4, 6, 8, 12, 24, 48, 72].map(|n| n * HOUR);
        let allowed: Vec<u64> = minutes.into_iter().chain(hours).collect();
        let half_minutes = (0..=10 * HOUR).step_by(30);
        for interval in half_minutes.chain((0..=80).map(|n| n * HOUR)) {
            let is_allowed = spec(interval, interval, 1).is_ok();
            assert_eq!(is_allowed, allowed.contains(&interval), "{interval} s");
        }
        let error = spec(7 * HOUR, 14 * HOUR, 1).expect_err("seven hours");
        let expected = "interval is 25200s: must be 1, 2, 3, 4, 5, 6";
        assert!(error.starts_with(expected), "{error}");
        let odd = Duration::from_millis(60_500);
        assert!(checked_spec(odd, odd, 1).is_err());
    }

    #[test]
    fn a_period_is_a_multiple_of_the_interval() {
        for (interval, period, is_allowed) in [
            (HOUR, HOUR, true),
            (HOUR, DAY, true),
            (MINUTE, DAY, true),
            (MINUTE, 1_500 * MINUTE, true),
            (MINUTE, 1_501 * MINUTE, false),
            (HOUR, HOUR / 2, false),
            (2 * HOUR, 3 * HOUR, false),
            (HOUR, 0, false),
            (DAY, 366 * DAY, true),
            (DAY, 367 * DAY, false),
            (366 * DAY, 366 * DAY, true),
        ] {
            let error = spec(interval, period, 1).err();
            assert_eq!(error.is_none(), is_allowed, "{interval} {period}");
            let expected = format!("times the interval of {interval} s");
            assert!(error.is_none_or(|error| error.contains(&expected)));
        }
    }

    #[test]
    fn ids_and_names_are_bounded() {
        for (max_ids, is_allowed) in [(0, false), (1, true), (100_000, true), (100_001, false)] {
            let error = spec(HOUR, DAY, max_ids).err();
            assert_eq!(error.is_none(), is_allowed, "{max_ids}");
            assert!(error.is_none_or(|error| error.starts_with("max_ids is ")));
        }
        let longest = "x".repeat(256);
        for name in ["posts", "<all>", &longest] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "a\n", &format!("{longest}x")] {
            let error = check_name(name).expect_err(name).to_string();
            assert!(error.starts_with("ranking is "), "{error}");
        }
    }
}
