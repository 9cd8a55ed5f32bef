//! Loading rows: the application's loader, its deadline, and its panics.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;

use super::permits::Permit;
use tower_pulse_core::task::BoxFuture;
use tower_pulse_redis::rows::LoadedRow;

/// Loads rows from their source, such as a database or another service.
///
/// Any closure from an id to a future of `Result<Option<T>, E>` is a loader. `Ok(None)` says that the row does not
/// exist. Implement the trait for a loader that has a name or its own state.
pub trait RowLoader: Send + Sync + 'static {
    /// The row, which is cached as JSON. For readers in other languages, the JSON should be an object.
    type Row: Serialize + Send;
    /// The reason why a row could not be loaded.
    type Error: Display + Send;

    /// Loads a row; `None` if the row does not exist.
    fn load(
        &self,
        id: String,
    ) -> impl Future<Output = Result<Option<Self::Row>, Self::Error>> + Send;
}

impl<F, T, E, R> RowLoader for F
where
    F: Fn(String) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Option<T>, E>> + Send,
    T: Serialize + Send,
    E: Display + Send,
{
    type Row = T;
    type Error = E;

    fn load(&self, id: String) -> impl Future<Output = Result<Option<T>, E>> + Send {
        self(id)
    }
}

/// A loader of any type. The permit is held until the row is loaded.
pub(super) type AnyLoader =
    Arc<dyn Fn(String, &Permit) -> BoxFuture<'static, LoadedRow> + Send + Sync>;

/// Adds a deadline and a size limit to a loader, and turns its panics into errors.
pub(super) fn any<L: RowLoader>(loader: L, deadline: Duration, max_bytes: usize) -> AnyLoader {
    let loader = Arc::new(loader);
    Arc::new(move |id, permit| {
        let loader = loader.clone();
        let load = permit.scope(async move {
            let row = loader.load(id).await.map_err(|error| error.to_string())?;
            let Some(row) = row else { return Ok(None) };
            serde_json::to_vec(&row)
                .map(Some)
                .map_err(|error| format!("it cannot be written as JSON: {error}"))
        });
        // The load runs in a separate task, so that a panic ends only that task. The `JoinSet` ends the task when
        // this future is dropped.
        let mut task = JoinSet::new();
        task.spawn(load);
        Box::pin(async move {
            match tokio::time::timeout(deadline, task.join_next()).await {
                Err(_) => Err(format!("it took longer than {deadline:?}")),
                Ok(Some(Err(panic))) if panic.is_panic() => Err("the loader panicked".to_owned()),
                Ok(None | Some(Err(_))) => Err("the runtime shut down".to_owned()),
                Ok(Some(Ok(Ok(Some(json))))) if json.len() > max_bytes => Err(format!(
                    "it has {} bytes, more than `max_bytes`, {max_bytes}",
                    json.len()
                )),
                Ok(Some(Ok(loaded))) => loaded,
            }
        })
    })
}
