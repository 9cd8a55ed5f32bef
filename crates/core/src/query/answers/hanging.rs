//! The requests in flight of single paths, and the paths that hang.

use std::sync::Arc;

use serde::Serialize;

use super::measured::ContextName;
use crate::query::{QueryError, Source, Window};
use tower_pulse_model::context::{ContextId, RecordId};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::snapshot::{AliveInstance, MAX_PATHS_IN_FLIGHT};
use tower_pulse_model::sorted::Map;

/// With fewer requests in flight, a path does not count as hanging, because one or two clients may be slow.
const ENOUGH: u64 = 3;

/// A path that has requests in flight, but none of these requests ends.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct HangingPath {
    /// The path.
    #[serde(flatten)]
    pub name: ContextName,
    /// The instances on which the path hangs.
    pub instances: Vec<Arc<str>>,
    /// Requests in flight on these instances.
    pub in_flight: u64,
    /// Seconds since the last request of the path ended on one of these instances.
    pub seconds: u64,
}

/// The paths that hang. Paths with the most requests in flight come first.
pub(super) async fn hanging(source: &Source) -> Result<Vec<HangingPath>, QueryError> {
    let fleet = source.fleet().await?;
    let mut hanging: Map<RecordId, (Vec<Arc<str>>, u64, u64)> = Map::default();
    for alive in &fleet.alive {
        for path in alive.paths.iter().filter(|path| path.hangs) {
            let new = || (Vec::new(), 0, u64::MAX);
            let (instances, in_flight, seconds) = hanging.or_insert_with(path.path, new);
            // Several processes may have the same instance name.
            if instances.last() != Some(&alive.instance) {
                instances.push(alive.instance.clone());
            }
            *in_flight = in_flight.saturating_add(path.in_flight);
            *seconds = path.seconds.min(*seconds);
        }
    }
    if hanging.is_empty() {
        return Ok(Vec::new());
    }
    let hour = source.window(Window::HOUR).await?;
    let named = hanging
        .into_iter()
        .filter_map(|(id, (instances, in_flight, seconds))| {
            let context = hour.contexts.get(&id)?;
            (in_flight >= ENOUGH).then(|| HangingPath {
                name: ContextName::of(context),
                instances,
                in_flight,
                seconds,
            })
        });
    let mut paths: Vec<_> = named.collect();
    paths.order_by_key(|path| std::cmp::Reverse(path.in_flight));
    Ok(paths)
}

/// Requests in flight of a path; `None` if no instance reports the path, but an instance has so many paths in flight
/// that it may omit this path.
pub(super) async fn in_flight_of(
    source: &Source,
    context: &ContextId,
) -> Result<Option<u64>, QueryError> {
    let fleet = source.fleet().await?;
    let id = RecordId::new(context.kind, &context.name);
    let paths = fleet.alive.iter().flat_map(|alive| &alive.paths);
    let own = paths.filter(|path| path.path == id);
    let sum = own.fold(0, |sum: u64, path| sum.saturating_add(path.in_flight));
    let is_full = |alive: &AliveInstance| alive.paths.len() >= MAX_PATHS_IN_FLIGHT;
    Ok((sum > 0 || !fleet.alive.iter().any(is_full)).then_some(sum))
}
