//! Calls with a value that is, or may be, too large for the shared connections.

use std::time::Duration;

use tokio::sync::MutexGuard;

use super::{Connections, Role};
use tower_pulse_core::error::Result;

/// The largest row that is read or written on a shared connection.
pub(crate) const LARGE_ROW: usize = 4 << 20;

/// The right to make calls with a large value by [`Role::Large`], which has one holder at a time. Dropping the right
/// closes the connection, whose buffers have grown with the value.
pub(crate) struct LargeCall<'a> {
    connections: &'a Connections,
    _guard: MutexGuard<'a, ()>,
}

impl Connections {
    /// Waits until no other call has a large value.
    pub(crate) async fn large(&self) -> LargeCall<'_> {
        LargeCall {
            connections: self,
            _guard: self.large_mutex.lock().await,
        }
    }

    /// The longest time for a command.
    pub(crate) fn response_timeout(&self) -> Duration {
        self.dialer.response_timeout(Role::Write)
    }

    /// Connects unless already connected.
    pub(crate) async fn connected(&self, role: Role) -> Result<()> {
        self.connection(role).await.map(drop)
    }
}

impl Drop for LargeCall<'_> {
    fn drop(&mut self) {
        // The lock is free, as the call has ended.
        if let Ok(mut state) = self.connections.slot(Role::Large).state.try_lock() {
            state.connection = None;
        }
    }
}
