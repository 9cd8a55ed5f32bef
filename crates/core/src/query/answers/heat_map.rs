//! The number of requests by slice and duration. All slices have the same rows.

use serde::{Deserialize, Serialize};

use super::check_points;
use super::measured::Measured;
use super::metric::SliceTimes;
use super::resolution::Resolution;
use super::series::{context_id, recorded};
use crate::query::question::or_any;
use crate::query::{Covered, QueryError, Source, Window};
use tower_pulse_model::context::Kind;
use tower_pulse_model::histogram::{COARSE_SCALE, Histogram, lower_bound};

/// The maximum number of rows: 12 octaves of 4 rows each, such as 1 ms to 4 s. If the durations span more octaves, an
/// octave has fewer rows.
const MAX_ROWS: u16 = 48;

/// The requests of a context, or of all contexts, by time and by duration.
///
/// The answer to [`HeatMapQuery`](crate::query::dashboard::HeatMapQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct HeatMap {
    /// The context; `None` stands for all requests.
    pub context: Option<String>,
    /// The length of a slice, in seconds.
    pub precision: u32,
    /// The time that the window covers.
    #[serde(flatten)]
    pub window: Covered,
    /// The largest relative error of the percentiles.
    pub error: f64,
    /// The start and the end, in Unix seconds, of each time in which the service was not running, oldest first. The end
    /// is excluded.
    pub not_running: Vec<(i64, i64)>,
    /// The bounds of the rows in seconds, ascending: row `n` has the durations from bound `n` to below bound `n + 1`,
    /// counted from 0.
    ///
    /// The bounds grow by a constant factor. There is one bound more than rows, or none without requests. A first row
    /// that starts at 1 µs includes shorter durations. A last row that ends at the largest bound of histograms includes
    /// longer durations.
    pub bounds: Vec<f64>,
    /// The slices that have requests, oldest first.
    pub slices: Vec<HeatSlice>,
}

/// A slice of a heat map.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct HeatSlice {
    /// The start of the slice, in Unix seconds.
    pub start: i64,
    /// The statistics of the slice's durations.
    #[serde(flatten)]
    pub times: SliceTimes,
    /// The index of each row with requests, and the number of its requests. The shortest durations come first.
    pub cells: Vec<(u16, u64)>,
}

/// Asks for a heat map.
/// The answer is [`HeatMap`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HeatMapQuery {
    /// The context; `None` stands for all requests.
    pub context: Option<String>,
    /// The kind of the context. Without a kind, a page is preferred to a timer.
    #[serde(deserialize_with = "or_any")]
    pub kind: Option<Kind>,
    /// The window.
    pub window: Window,
    /// The length of the slices in seconds: a length at which records are kept. The default is the finest that covers
    /// the window with at most 200 slices.
    pub precision: Option<u32>,
}

pub(in crate::query) async fn heat_map(
    source: &Source,
    query: &HeatMapQuery,
) -> Result<HeatMap, QueryError> {
    let now = source.clock.now_seconds();
    let asked = query.window.bounds(now);
    let tiers = source.tiers().await?;
    // Counters have no histograms.
    let resolutions = Resolution::all(source.store.precisions(), false, tiers);
    let resolution = Resolution::choose(&resolutions, query.precision, Some(&asked), now)?;
    let (slices, precision) = (resolution.slices(&asked), resolution.precision);
    let length = slices.seconds() / i64::from(precision);
    check_points::<HeatMapQuery>(usize::try_from(length).unwrap_or(0) * usize::from(MAX_ROWS))?;

    let id = context_id(source, query.context.as_deref(), query.kind).await?;
    let records = source.records(&id, precision, resolution.tier);
    let records = records.await?;
    let oldest = records.first().map(|slice| slice.start);
    let (window, not_running) = recorded(source, slices, precision, oldest).await?;
    let within = || {
        let records = records.iter();
        records.filter(|slice| slices.contains(slice.start) && slice.sums.times.count > 0)
    };
    let rows = Rows::of(within().map(|slice| &slice.sums.histogram));
    let errors = within().map(|slice| slice.sums.histogram.error());
    Ok(HeatMap {
        context: query.context.clone(),
        precision,
        window,
        error: errors.fold(0.0, f64::max),
        not_running,
        bounds: rows.map_or_else(Vec::new, Rows::bounds),
        slices: within()
            .map(|slice| HeatSlice {
                start: slice.start,
                times: {
                    let measured = Measured::in_slice(Kind::All, &slice.sums);
                    SliceTimes::new(measured.count, &measured.times)
                },
                cells: rows.map_or_else(Vec::new, |rows| rows.cells(&slice.sums.histogram)),
            })
            .collect(),
    })
}

/// The rows of a heat map: consecutive buckets of one scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    scale: u8,
    first: u16,
    last: u16,
}

impl Rows {
    /// The finest rows that include all of these histograms; `None` if all are empty.
    fn of<'a>(histograms: impl Iterator<Item = &'a Histogram> + Clone) -> Option<Self> {
        let scales = histograms.clone().map(Histogram::scale);
        let finest = scales.min()?.min(COARSE_SCALE);
        let at = |scale: u8| {
            let edges = histograms.clone().filter_map(|histogram| {
                let shift = histogram.scale() - scale;
                let (first, last) = (histogram.buckets().first()?, histogram.buckets().last()?);
                Some((first.0 >> shift, last.0 >> shift))
            });
            let widest = |a: (u16, u16), b: (u16, u16)| (a.0.min(b.0), a.1.max(b.1));
            let (first, last) = edges.reduce(widest)?;
            Some(Self { scale, first, last })
        };
        let rows = (0..=finest).rev().map_while(at);
        let fit = rows.clone().find(|rows| rows.last - rows.first < MAX_ROWS);
        // Histograms that another program has written may need more rows, even at the coarsest scale. Buckets beyond
        // the last row count in the last row.
        fit.or_else(|| rows.last()).map(|rows| Self {
            last: rows.last.min(rows.first.saturating_add(MAX_ROWS - 1)),
            ..rows
        })
    }

    fn bounds(self) -> Vec<f64> {
        let edges = self.first..=self.last.saturating_add(1);
        edges.map(|edge| lower_bound(edge, self.scale)).collect()
    }

    fn cells(self, histogram: &Histogram) -> Vec<(u16, u64)> {
        let mut coarse = histogram.clone();
        coarse.coarsen(self.scale);
        let mut cells: Vec<(u16, u64)> = Vec::with_capacity(coarse.buckets().len());
        for (index, n) in coarse.buckets() {
            let row = index.min(&self.last) - self.first;
            match cells.last_mut().filter(|(last, _)| *last == row) {
                Some((_, sum)) => *sum = sum.saturating_add(*n),
                None => cells.push((row, *n)),
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::histogram::{SCALE, bucket_of};

    fn histogram(nanos: &[u64]) -> Histogram {
        let buckets = nanos.iter().map(|nanos| (bucket_of(*nanos) as u16, 1));
        Histogram::new(SCALE, buckets)
    }

    fn rows(histograms: &[Histogram]) -> Option<Rows> {
        Rows::of(histograms.iter())
    }

    #[test]
    fn rows_are_a_quarter_of_an_octave_unless_there_are_many_octaves() {
        let ms = 1_000_000;
        let usual = histogram(&[ms, 4 * ms, 2_000 * ms]);
        let usual = rows(&[usual, Histogram::default()]).expect("there are requests");
        assert_eq!(usual.scale, COARSE_SCALE);
        let bounds = usual.bounds();
        assert_eq!(bounds.len(), usize::from(usual.last - usual.first) + 2);
        assert!(bounds[0] <= 0.001 && 0.001 < bounds[1], "{bounds:?}");
        for pair in bounds.windows(2) {
            assert!((pair[1] / pair[0] - 2f64.powf(0.25)).abs() < 1e-9);
        }
        let wide = rows(&[histogram(&[1_000, 10_000 * ms])]).expect("there are requests");
        assert_eq!(wide.scale, 1);
        let widest = rows(&[histogram(&[0, u64::MAX])]).expect("there are requests");
        assert_eq!((widest.scale, widest.first, widest.last), (0, 0, 31));
        assert_eq!(rows(&[]), None);
        assert_eq!(rows(&[Histogram::default()]), None);
    }

    #[test]
    fn foreign_buckets_have_rows_too() {
        let foreign = Histogram::new(0, [(3, 1), (900, 2), (u16::MAX, 4)]);
        let rows = rows(std::slice::from_ref(&foreign)).expect("there are requests");
        assert_eq!(rows.bounds().len(), usize::from(MAX_ROWS) + 1);
        assert!(rows.bounds().iter().all(|bound| bound.is_finite()));
        assert_eq!(rows.cells(&foreign), [(0, 1), (MAX_ROWS - 1, 6)]);
    }
}
