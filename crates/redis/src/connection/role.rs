//! The purposes of connections.

use std::time::Duration;

use redis::AsyncConnectionConfig;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Write,
    Fold,
    Read,
    /// A single call with a large row.
    #[cfg(feature = "row-cache")]
    Large,
}

/// The longest time for a large row: 64 MiB take about as long at 60 Mbit/s.
#[cfg(feature = "row-cache")]
const LARGE_TIMEOUT: Duration = Duration::from_secs(10);

impl Role {
    /// The configuration of a connection.
    pub(super) fn config(
        self,
        others: &AsyncConnectionConfig,
        response_timeout: Duration,
    ) -> AsyncConnectionConfig {
        let timeout = match self {
            #[cfg(feature = "row-cache")]
            Self::Large => response_timeout.max(LARGE_TIMEOUT),
            Self::Write | Self::Fold | Self::Read => response_timeout,
        };
        others.clone().set_response_timeout(Some(timeout))
    }
}
