//! Faults of a server that is reached: each has a condition, which the walk of the conditions and the soak let begin and
//! end.

/// A fault that commands begin and end.
pub struct ServerFault {
    /// The name of the condition.
    pub condition: &'static str,
    pub begin: &'static str,
    pub end: &'static str,
}

const fn fault(condition: &'static str, begin: &'static str, end: &'static str) -> ServerFault {
    ServerFault {
        condition,
        begin,
        end,
    }
}

/// Commands without keys of this crate, so that each prefix has them.
pub const SERVER_FAULTS: [ServerFault; 9] = [
    fault(
        "flush",
        "ACL SETUSER default -xadd",
        "ACL SETUSER default +xadd",
    ),
    fault(
        "heartbeat",
        "ACL SETUSER default -zcount",
        "ACL SETUSER default +zcount",
    ),
    fault(
        "fold",
        "ACL SETUSER default -xrange",
        "ACL SETUSER default +xrange",
    ),
    fault(
        "cleaning",
        "ACL SETUSER default -zremrangebyscore",
        "ACL SETUSER default +zremrangebyscore",
    ),
    fault(
        "read",
        "ACL SETUSER default -hgetall",
        "ACL SETUSER default +hgetall",
    ),
    fault(
        "untrimmed",
        "ACL SETUSER default -xtrim",
        "ACL SETUSER default +xtrim",
    ),
    fault(
        "unknown_server",
        "ACL SETUSER default -info",
        "ACL SETUSER default +info",
    ),
    fault(
        "eviction",
        "CONFIG SET maxmemory-policy allkeys-lru",
        "CONFIG SET maxmemory-policy noeviction",
    ),
    fault(
        "full_server",
        "CONFIG SET maxmemory 1",
        "CONFIG SET maxmemory 0",
    ),
];
