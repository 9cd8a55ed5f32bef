//! The server's kind, version and configuration, read from INFO.

use redis::InfoDict;
use tower_pulse_core::condition::{Condition, Warning};

use super::value::shown;

const OLDEST_REDIS: (u64, u64) = (6, 2);
const OLDEST_VALKEY: (u64, u64) = (7, 2);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    /// `redis` or `valkey`.
    flavour: &'static str,
    version: String,
    /// Whether a node of a cluster is used as a standalone server.
    is_lone_node: bool,
    /// As inspect.lua writes it: the eviction policy, the number of evicted keys, and 1 if no memory is left, or 0.
    memory: String,
}

impl Server {
    pub(super) fn parse(info: &str, is_in_cluster: bool) -> Self {
        let info = InfoDict::new(info);
        let field = |name| Some(shown(info.get::<String>(name)?.as_bytes()));
        let bytes = |name| info.get(name).unwrap_or(0.0);
        let most: f64 = bytes("maxmemory");
        let is_full = most > 0.0 && bytes("used_memory") >= 0.99 * most;
        let (flavour, version) = match field("valkey_version") {
            Some(version) => ("valkey", Some(version)),
            None => ("redis", field("redis_version")),
        };
        Self {
            flavour,
            version: version.unwrap_or_default(),
            is_lone_node: !is_in_cluster && field("redis_mode").as_deref() == Some("cluster"),
            memory: format!(
                "{} {} {}",
                field("maxmemory_policy").unwrap_or_default(),
                field("evicted_keys").unwrap_or_default(),
                u8::from(is_full)
            ),
        }
    }

    /// The name and version, such as `redis 7.0.15`.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.flavour, self.version)
            .trim_end()
            .to_owned()
    }

    /// Whether the server has answered INFO.
    pub(super) fn is_known(&self) -> bool {
        self.version().is_some()
    }

    /// `grant` is the rule that permits INFO.
    pub(super) fn warnings(&self, grant: &str) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let (name, flavour) = (self.name(), self.flavour);
        let (major, minor) = match flavour {
            "valkey" => OLDEST_VALKEY,
            _ => OLDEST_REDIS,
        };
        match self.version() {
            Some(version) if version < (major, minor) => {
                let oldest = format!("{flavour} {major}.{minor}, the oldest that is supported");
                let text = format!("{name} is older than {oldest}: upgrade it");
                warnings.push(Condition::OldServer.warning(text));
            }
            Some(_) => {}
            None => warnings.push(Condition::UnknownServer.warning(format!(
                "the server's version and eviction policy are unknown, because INFO is denied: allow INFO with {grant}"
            ))),
        }
        warnings.extend(self.memory_warning());
        if self.is_lone_node {
            warnings.push(Condition::LoneNode.warning(
                "the server is a node of a Redis Cluster, and may lose its slot: use `redis_cluster` instead of `redis`",
            ));
        }
        warnings
    }

    pub(super) fn set_memory(&mut self, memory: &str) {
        self.memory = shown(memory.as_bytes());
    }

    fn memory_warning(&self) -> Option<Warning> {
        let mut memory = self.memory.split(' ');
        match (memory.next()?, memory.next()?, memory.next()) {
            ("noeviction", _, Some("1")) => {
                let text = "the server has no memory left: raise maxmemory, or delete keys";
                Some(Condition::FullServer.warning(text))
            }
            ("" | "noeviction", ..) => None,
            (policy, evicted, _) => Some(Condition::Eviction.warning(format!(
                "maxmemory-policy is {policy}, so the server may evict this crate's data ({evicted} keys evicted so far): \
                 set it to noeviction"
            ))),
        }
    }

    fn version(&self) -> Option<(u64, u64)> {
        let mut parts = self.version.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::Server;
    use tower_pulse_core::condition::Condition::{Eviction, LoneNode, OldServer};
    use tower_pulse_core::condition::{conditions, texts};

    #[test]
    fn warnings_name_old_versions_eviction_and_clusters() {
        let info = "redis_version:6.0.16\r\nredis_mode:cluster\r\nmaxmemory_policy:allkeys-lru\r\n";
        let warnings = texts(Server::parse(info, false).warnings(""));
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        let conditions = conditions(&Server::parse(info, false).warnings(""));
        assert_eq!(conditions, [OldServer, Eviction, LoneNode]);
        assert!(warnings[0].contains("6.0.16") && warnings[1].contains("allkeys-lru"));
        assert!(warnings[2].contains("`redis_cluster`"));
        assert_eq!(Server::parse(info, true).warnings("").len(), 2);
        let info = "redis_version:7.2.4\r\nvalkey_version:8.0.1\r\nmaxmemory_policy:noeviction\r\n";
        let server = Server::parse(info, false);
        assert_eq!(server.name(), "valkey 8.0.1");
        assert!(server.warnings("").is_empty());
        let forbidden = texts(Server::parse("", false).warnings("+info"));
        assert!(forbidden[0].contains("+info"));
    }
}
