//! The purposes of connections, and their bounds.

use std::time::Duration;

use redis::AsyncConnectionConfig;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Write,
    Fold,
    Read,
    /// One call with a large row.
    #[cfg(feature = "row-cache")]
    Large,
}

pub(super) const MIB: usize = 1024 * 1024;

/// How long a large row may take, as one of 64 MiB does by 60 Mbit/s.
#[cfg(feature = "row-cache")]
const LARGE_TIMEOUT: Duration = Duration::from_secs(10);

impl Role {
    /// The most memory that one answer may take. The largest regular answers are 500 records, an entry of the
    /// journal, and a counter whose slices of a day were never cleaned; all others are small. A large row is of up to
    /// 64 MiB, of which each byte counts twice, and a line of JSON for more.
    pub(super) fn max_answer_bytes(self) -> usize {
        match self {
            Self::Write => 4 * MIB,
            Self::Fold => 24 * MIB,
            Self::Read => 28 * MIB,
            #[cfg(feature = "row-cache")]
            Self::Large => 256 * MIB,
        }
    }

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
