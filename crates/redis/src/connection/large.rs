//! Calls with a value that is too large for the connections that others share, or may be.

use std::time::Duration;

use tokio::sync::MutexGuard;

use super::{Connections, Role};
use tower_pulse_core::error::Result;

/// The largest row that is read or written on a connection that others share.
pub(crate) const LARGE_ROW: usize = 4 << 20;

/// The right to make calls with a large value by [`Role::Large`], on a connection of its own, which ends with this: its
/// buffers have grown with the value. There is one at a time.
pub(crate) struct LargeCall<'a> {
    connections: &'a Connections,
    _turn: MutexGuard<'a, ()>,
}

impl Connections {
    /// Waits until no other call has a large value.
    pub(crate) async fn large(&self) -> LargeCall<'_> {
        LargeCall {
            connections: self,
            _turn: self.large_turn.lock().await,
        }
    }

    /// How long a command may take.
    pub(crate) fn response_timeout(&self) -> Duration {
        self.dialer.response_timeout()
    }

    /// Connects unless there is a connection.
    pub(crate) async fn connected(&self, role: Role) -> Result<()> {
        self.connection(role).await.map(drop)
    }
}

impl Drop for LargeCall<'_> {
    fn drop(&mut self) {
        // Nobody else has this lock, as the call has ended.
        if let Ok(mut state) = self.connections.large.state.try_lock() {
            state.connection = None;
        }
    }
}
