//! Calls with a value that is, or may be, too large for the shared connections.

use tokio::sync::MutexGuard;

use super::{Connections, Role};
use tower_pulse_core::error::{Result, StoreError, StoreErrorKind};

/// The largest row that is read or written on a shared connection.
pub(crate) const LARGE_ROW: usize = 4 << 20;

/// The right to make calls with a large value over the connection of [`Role::Large`]. Only one call holds the right at
/// a time. Dropping the right closes the connection, whose buffers have grown with the value.
pub(crate) struct LargeCall<'a> {
    connections: &'a Connections,
    _guard: MutexGuard<'a, ()>,
}

impl Connections {
    pub(crate) async fn large(&self) -> LargeCall<'_> {
        LargeCall {
            connections: self,
            _guard: self.large_mutex.lock().await,
        }
    }

    /// Connects for reading within the response timeout. Other calls may take longer to connect.
    pub(crate) async fn connect_soon(&self) -> Result<()> {
        let timeout = self.dialer.response_timeout(Role::Read);
        let connected = tokio::time::timeout(timeout, self.connection(Role::Read)).await;
        let message = || format!("no answer within {timeout:?}");
        connected.map_err(|_| StoreError::new(StoreErrorKind::TimedOut, message()))??;
        Ok(())
    }
}

impl Drop for LargeCall<'_> {
    fn drop(&mut self) {
        // The lock is free, because the call has ended.
        if let Ok(mut state) = self.connections.of_role(Role::Large).state.try_lock() {
            state.connection = None;
        }
    }
}
