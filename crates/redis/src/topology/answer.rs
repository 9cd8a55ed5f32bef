//! Answers of nodes and Sentinels that name other servers.

use redis::{RedisError, Value};

use super::address::Address;
use crate::value::{int, items, text};

/// The most nodes of a cluster that are remembered.
const MAX_NODES: usize = 64;

pub(super) fn named_by_sentinel(reply: &Value) -> Option<Address> {
    match items(reply) {
        [host, port] => announced(text(host), port),
        _ => None,
    }
}

/// Reads the answer to CLUSTER SLOTS: ranges of the form `first slot, last slot, owner, replicas…`, where each node is
/// `host, port, id, …`. A missing or empty host means the host of the asked node. Returns the owner of a slot, and all
/// nodes.
pub(super) fn named_by_node(
    reply: &Value,
    slot: u16,
    asked: &str,
) -> (Option<Address>, Vec<Address>) {
    let node = |node: &Value| match items(node) {
        [Value::Nil, port, ..] => announced(Some(asked), port),
        [host, port, ..] => {
            let host = text(host).map(|host| if host.is_empty() { asked } else { host });
            announced(host, port)
        }
        _ => None,
    };
    let (mut owner, mut all) = (None, Vec::new());
    for range in items(reply) {
        let [first, last, nodes @ ..] = items(range) else {
            continue;
        };
        let (Some(first), Some(last)) = (int(first), int(last)) else {
            continue;
        };
        if (first..=last).contains(&i64::from(slot)) && owner.is_none() {
            owner = nodes.first().and_then(node);
        }
        for node in nodes.iter().filter_map(node) {
            if all.len() < MAX_NODES && !all.contains(&node) {
                all.push(node);
            }
        }
    }
    (owner, all)
}

fn announced(host: Option<&str>, port: &Value) -> Option<Address> {
    Address::announced(host?, u16::try_from(int(port)?).ok()?)
}

/// The node that must execute a command. The node that answered has not executed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) node: Address,
    /// If `true`, the slot is being moved to the node, and its owner does not have the key (any more). Then only this
    /// command goes to the node, after ASKING. If `false`, the node owns the slot.
    pub(crate) is_asking: bool,
}

impl Redirect {
    /// Parses an error such as `MOVED 3999 127.0.0.1:6381`. `None` if the error is no redirect, concerns another slot,
    /// or has no address. An empty host means the host of the node that answered.
    pub(super) fn parse(reply: &Value, slot: u16, answered_by: &str) -> Option<Self> {
        let Value::ServerError(error) = reply else {
            return None;
        };
        let error = RedisError::from(error.clone());
        let (node, of_slot) = error.redirect_node()?;
        let node = Address::parse(node, Some(answered_by))?;
        let is_asking = error.code() == Some("ASK");
        (of_slot == slot).then_some(Self { node, is_asking })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text, None).expect("an address")
    }

    fn word(word: &str) -> Value {
        Value::BulkString(word.as_bytes().to_vec())
    }

    fn node(host: Value, port: i64) -> Value {
        let id = word("07c37dfeb235213a872192d90877d0cd55635b91");
        Value::Array(vec![host, Value::Int(port), id, Value::Array(Vec::new())])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        let mut range = vec![Value::Int(first), Value::Int(last)];
        range.extend(nodes);
        Value::Array(range)
    }

    #[test]
    fn the_owner_is_the_first_node_of_the_range() {
        let reply = Value::Array(vec![
            range(0, 5460, vec![node(word("a"), 1), node(word("b"), 2)]),
            range(5461, 16_383, vec![node(word(""), 3), node(Value::Nil, 4)]),
        ]);
        let (owner, nodes) = named_by_node(&reply, 5460, "seed");
        assert_eq!(owner, Some(address("a:1")));
        assert_eq!(nodes, ["a:1", "b:2", "seed:3", "seed:4"].map(address));
        let (owner, _) = named_by_node(&reply, 5461, "seed");
        assert_eq!(owner, Some(address("seed:3")));
    }

    #[test]
    fn nonsense_names_no_owner() {
        for reply in [
            Value::Nil,
            Value::Int(1),
            Value::Array(Vec::new()),
            Value::Array(vec![Value::Nil, Value::Array(vec![Value::Int(0)])]),
            Value::Array(vec![range(0, 99, Vec::new())]),
            Value::Array(vec![range(99, 0, vec![node(word("a"), 1)])]),
            Value::Array(vec![range(i64::MIN, i64::MAX, vec![Value::Nil])]),
            Value::Array(vec![range(0, 99, vec![node(word("?"), 1)])]),
            Value::Array(vec![range(0, 99, vec![node(word("a\r\nb"), 1)])]),
            Value::Array(vec![range(0, 99, vec![node(word("a"), 1 << 40)])]),
        ] {
            assert_eq!(named_by_node(&reply, 7, "seed").0, None, "{reply:?}");
        }
    }

    #[test]
    fn a_hostile_answer_leaves_a_bounded_list() {
        let nodes = (1..=10_000).map(|port| node(word("a"), port)).collect();
        let reply = Value::Array(vec![range(0, 16_383, nodes)]);
        assert_eq!(named_by_node(&reply, 7, "seed").1.len(), MAX_NODES);
    }

    #[test]
    fn a_sentinel_answers_with_a_host_and_a_port() {
        let named = |words: &[&str]| {
            let reply = Value::Array(words.iter().copied().map(word).collect());
            named_by_sentinel(&reply).map(|address| address.to_string())
        };
        let address = named(&["fe80::1", "6379"]);
        assert_eq!(address.as_deref(), Some("[fe80::1]:6379"));
        for nonsense in [&[][..], &["a", "6379", "more"], &["", "6379"], &["a", "-1"]] {
            assert_eq!(named(nonsense), None, "{nonsense:?}");
        }
    }
}
