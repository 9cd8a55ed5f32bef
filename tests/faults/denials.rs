//! Faults of a server that can be reached. The tests of conditions and the soak test begin and end each fault.

/// A fault that a command begins and ends: the name of the condition, the command, its last word to begin the fault,
/// and its last word to end the fault.
pub struct ServerFault(pub &'static str, &'static str, &'static str, &'static str);

impl ServerFault {
    pub fn begin(&self) -> String {
        format!("{} {}", self.1, self.2)
    }

    pub fn end(&self) -> String {
        format!("{} {}", self.1, self.3)
    }
}

const ACL: &str = "ACL SETUSER default";
const POLICY: &str = "CONFIG SET maxmemory-policy";

/// The commands name no keys, so they work with any prefix.
pub const SERVER_FAULTS: [ServerFault; 9] = [
    ServerFault("flush", ACL, "-xadd", "+xadd"),
    ServerFault("heartbeat", ACL, "-zcount", "+zcount"),
    ServerFault("fold", ACL, "-xrange", "+xrange"),
    ServerFault("cleaning", ACL, "-zremrangebyscore", "+zremrangebyscore"),
    ServerFault("read", ACL, "-hgetall", "+hgetall"),
    ServerFault("untrimmed", ACL, "-xtrim", "+xtrim"),
    ServerFault("unknown_server", ACL, "-info", "+info"),
    ServerFault("eviction", POLICY, "allkeys-lru", "noeviction"),
    ServerFault("full_server", "CONFIG SET maxmemory", "1", "0"),
];
