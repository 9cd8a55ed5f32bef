//! Converts errors of the server and of the client to a [`StoreError`] with advice to the operator.

use std::collections::BTreeSet;

use redis::{ConnectionInfo, ErrorKind, RedisError};

use super::call_keys::named;
use super::commands::commands;
use super::keys::Keys;
use super::options::RedisOptions;
use super::topology::{Address, Layout};
use super::value::shown;
use tower_pulse_core::error::{StoreError, StoreErrorKind};

/// The commands that a user needs in a cluster, besides the commands of a store.
const CLUSTER_COMMANDS: &str = " +cluster|slots +asking";

/// The server's address and the user's ACL rule, for the texts of errors.
#[derive(Clone)]
pub(super) struct ServerInfo {
    /// The kind of server: a Redis or a Sentinel.
    name: &'static str,
    /// The address and the database, such as `127.0.0.1:6379/0`.
    pub(super) address: String,
    user: String,
    /// The rule that gives the user all permissions that the store needs.
    acl: String,
    layout: Layout,
    /// Whether the application gives the credentials.
    has_callback: bool,
}

impl ServerInfo {
    pub(super) fn new(options: &RedisOptions, keys: &Keys) -> Self {
        let names = commands(options.is_read_only).filter_map(|example| example.split(' ').next());
        let names: BTreeSet<_> = (names.chain(["SELECT", "INFO"]))
            .map(|name| name.to_lowercase().replace("memory", "memory|usage"))
            .collect();
        let user = user_of(&options.info);
        let mut acl = format!("ACL SETUSER {user} {}", keys.acl_patterns());
        acl.extend(names.iter().flat_map(|name| [" +", name]));
        acl += match options.layout {
            Layout::Standalone => "",
            Layout::Cluster => CLUSTER_COMMANDS,
            Layout::Sentinel(_) => " +role",
        };
        Self {
            name: "Redis",
            address: options.address(),
            user: user.to_owned(),
            acl,
            layout: options.layout.clone(),
            has_callback: options.credentials.is_some(),
        }
    }

    pub(super) fn grant(&self, command: &str) -> String {
        format!("ACL SETUSER {} +{command}", self.user)
    }

    /// Describes Sentinels, which have separate users.
    pub(super) fn of_sentinel(info: &ConnectionInfo) -> Self {
        let user = user_of(info);
        Self {
            name: "Sentinel",
            address: String::new(),
            user: user.to_owned(),
            acl: format!("ACL SETUSER {user} +sentinel|get-master-addr-by-name"),
            layout: Layout::Standalone,
            has_callback: false,
        }
    }

    /// Describes a node of the cluster, a primary that Sentinel names, or a Sentinel.
    pub(super) fn of_node(&self, node: &Address) -> Self {
        Self {
            address: node.to_string(),
            ..self.clone()
        }
    }

    pub(super) fn error(&self, kind: StoreErrorKind, message: &str) -> StoreError {
        let Self { name, address, .. } = self;
        StoreError::new(kind, format!("{name} at {address}: {message}"))
    }

    /// Converts an error that the client returned: a failure of the connection, or an error that the server answered.
    pub(super) fn explain(&self, error: &RedisError) -> StoreError {
        let text = shown(error.to_string().as_bytes());
        if error.is_timeout() {
            let message = "no answer within the response timeout (`redis_response_timeout`)";
            self.error(StoreErrorKind::TimedOut, message)
        } else if error.is_io_error() || error.is_unrecoverable_error() {
            let message =
                format!("cannot be reached ({text}); is it running, and is the address right?");
            self.error(StoreErrorKind::Unreachable, &message)
        } else if let Some(code) = error.code() {
            self.answered(code, error.detail().unwrap_or_default())
        } else if error.kind() == ErrorKind::AuthenticationFailed {
            self.answered("WRONGPASS", "")
        } else {
            let message =
                format!("an answer that cannot be understood ({text}); is it a Redis or Valkey?");
            self.error(StoreErrorKind::Unexpected, &message)
        }
    }

    /// Converts an error of the client, and names the keys of the call if the error concerns them. For a script, the
    /// named keys may include keys of the right type.
    pub(super) fn explain_about(
        &self,
        error: &RedisError,
        keys: &[&[u8]],
        is_script: bool,
    ) -> StoreError {
        let explained = self.explain(error);
        let is_about_keys = explained.kind() == StoreErrorKind::Unexpected && !keys.is_empty();
        let Some(code) = error.code().filter(|_| is_about_keys) else {
            return explained;
        };
        let detail = error.detail().unwrap_or_default();
        let reply = shown(format!("{code} {detail}").as_bytes());
        // The error does not name the key that has a wrong type, so only a single key is certain.
        let has_wrong_type = matches!(keys, [_]) && !is_script && is_of_another_type(error);
        let keys = named(keys);
        let message = match has_wrong_type {
            true => format!("{keys} holds something of another type: delete it ({reply})"),
            false => format!("it answered with an error about {keys} ({reply})"),
        };
        self.error(StoreErrorKind::Unexpected, &message)
    }

    pub(super) fn answered(&self, code: &str, detail: &str) -> StoreError {
        use StoreErrorKind::{Forbidden, Refused, Unexpected};
        const UNEXPLAINED: &str = "it answered with an error";
        // Removing the script's name and line gives one warning per cause.
        let detail = match detail.rsplit_once(" script: ") {
            Some((cause, line)) if line.contains(", on @user_script") => cause,
            _ => detail,
        };
        let (code, detail) = (real_code(code, detail), &*shown(detail.as_bytes()));
        let advice = match code {
            "NOPERM" => {
                let message = format!("{detail}; allow it with: {}", self.acl);
                return self.error(Forbidden, &message);
            }
            "NOAUTH" | "WRONGPASS" | "NOPASSWORD" if self.has_callback => {
                "it refuses the user or the password that the function given to `redis_credentials` has returned"
            }
            "NOAUTH" => "it asks for a password: put it into the URL, redis://:PASSWORD@host",
            "WRONGPASS" => {
                "user or password is wrong: check both in the URL, where special characters must be percent-encoded"
            }
            "NOPASSWORD" => {
                "it has no password, yet one was sent: take it out of the URL, or set requirepass"
            }
            "LOADING" => "it is loading its data; it will be ready by itself",
            "OOM" => "it is out of memory: raise maxmemory, or delete keys",
            "READONLY" | "MASTERDOWN" if self.layout != Layout::Standalone => {
                "it has become a replica; the store looks for the primary"
            }
            "CLUSTERDOWN" if self.layout == Layout::Cluster => {
                "the cluster does not serve the slot: see CLUSTER INFO of its nodes; the call is retried"
            }
            "TRYAGAIN" if self.layout == Layout::Cluster => {
                "the slot is being moved to another node; the call is retried"
            }
            "MOVED" | "ASK" if self.layout == Layout::Cluster => {
                "it names another node for the slot again and again, or one that cannot be reached; the call is retried"
            }
            "READONLY" => "it is a replica and cannot be written: point the URL to the primary",
            "MISCONF" => {
                "it cannot save to disk and so refuses writes: free disk space, and see its log"
            }
            "NOREPLICAS" => {
                "fewer replicas are connected than min-replicas-to-write demands: start them"
            }
            "MASTERDOWN" => "it is a replica without its primary: point the URL to the primary",
            "CLUSTERDOWN" | "MOVED" | "ASK" | "CROSSSLOT" | "TRYAGAIN" => {
                "this is a node of a Redis Cluster: give its URL to `redis_cluster` instead of `redis`"
            }
            "BUSY" => {
                "another client's script has run for too long: wait, or end it with SCRIPT KILL"
            }
            "MAXCLIENTS" => "it has no connection left: raise maxclients, or close other clients",
            _ => UNEXPLAINED,
        };
        let kind = match code {
            "NOAUTH" | "WRONGPASS" | "NOPASSWORD" => Forbidden,
            _ if advice == UNEXPLAINED => Unexpected,
            _ => Refused,
        };
        let reply = shown(format!("{code} {detail}").trim_end().as_bytes());
        self.error(kind, &format!("{advice} ({reply})"))
    }
}

fn user_of(info: &ConnectionInfo) -> &str {
    let user = info.redis_settings().username();
    user.filter(|user| !user.is_empty()).unwrap_or("default")
}

/// The code of an error. Older servers hide the code in the text of errors within scripts. `MAXCLIENTS` and
/// `NOPASSWORD` are codes of this crate: servers answer these errors with a plain `ERR`.
pub(super) fn real_code<'a>(code: &'a str, detail: &str) -> &'a str {
    if is_permission(detail) {
        return "NOPERM";
    }
    if code != "ERR" {
        return code;
    }
    const HIDDEN: [(&str, &str); 8] = [
        ("-OOM ", "OOM"),
        ("-READONLY ", "READONLY"),
        ("-MISCONF ", "MISCONF"),
        ("-NOREPLICAS ", "NOREPLICAS"),
        ("-MASTERDOWN ", "MASTERDOWN"),
        ("-CLUSTERDOWN ", "CLUSTERDOWN"),
        ("max number of clients reached", "MAXCLIENTS"),
        ("without any password configured", "NOPASSWORD"),
    ];
    let hidden = HIDDEN.iter().find(|(text, _)| detail.contains(text));
    hidden.map_or(code, |(_, code)| code)
}

/// Whether a text of the server reports a missing permission, inside or outside a script.
pub(super) fn is_permission(text: &str) -> bool {
    text.contains("no permissions") || text.contains("The user executing the script can't")
}

/// Whether a command or a script failed because a key is of another type. Older servers hide the code in the text.
pub(super) fn is_of_another_type(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    error.code() == Some("WRONGTYPE") || detail.contains("wrong kind of value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_give_advice() {
        let keys = Keys::new("pulse:".into());
        let options = RedisOptions::new("redis://app:pw@h:1").expect("a URL");
        let server_info = ServerInfo::new(&options, &keys);
        let cases = [
            (
                "ERR",
                "The user executing the script can't run this command",
                "ACL SETUSER app ~pulse:* +del +eval ",
            ),
            (
                "ERR",
                "Error running script: @user_script:1: -OOM command not allowed",
                "raise maxmemory",
            ),
            ("ERR", "max number of clients reached", "raise maxclients"),
            ("MOVED", "1 h:2", "`redis_cluster`"),
        ];
        for (code, detail, advice) in cases {
            let text = server_info.answered(code, detail).to_string();
            assert!(text.contains(advice), "{text}");
        }
    }
}
