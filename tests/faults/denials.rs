//! Faults of a server that can be reached. The tests of conditions and the soak test begin and end each fault.

/// The name of the fault's condition, a command, and the arguments of the command that begin and that end the fault.
pub struct ServerFault(pub &'static str, &'static str, &'static str, &'static str);

impl ServerFault {
    pub fn command(&self, begins: bool) -> String {
        format!("{} {}", self.1, if begins { self.2 } else { self.3 })
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
