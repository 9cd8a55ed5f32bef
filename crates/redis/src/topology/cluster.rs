//! A cluster, in which one node has all keys of a service, as they are in one slot.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex};

use redis::{Value, cmd};

use super::address::{Address, AddressMap};
use super::primary::Primary;
use super::race::first_answer;
use super::redirect::Redirect;
use crate::connection::{Connection, Dialer, Role};
use crate::permissions::is_refusal;
use crate::value::{int, items, text};
use tower_pulse_core::error::{Result, StoreError, StoreErrorKind};
use tower_pulse_core::task::lock;

/// The most nodes that are remembered besides the seeds, and that are asked at once.
const MAX_NODES: usize = 64;

/// A cluster, as seen from the one slot of a service.
pub(crate) struct Cluster {
    slot: u16,
    seeds: Vec<Address>,
    map: Option<AddressMap>,
    owner: Primary,
    nodes: Mutex<Nodes>,
}

/// The nodes in the cluster's last answer.
#[derive(Default)]
struct Nodes {
    known: Vec<Address>,
    /// The index among all nodes at which the next question begins. It advances, and starts at random, to spread
    /// questions.
    turn: usize,
}

/// The answer of a node about a slot.
#[derive(Debug, PartialEq, Eq)]
struct SlotAnswer {
    /// The owner, as announced.
    owner: Option<Address>,
    nodes: Vec<Address>,
}

impl Cluster {
    pub(super) fn new(slot: u16, seeds: Vec<Address>, map: Option<AddressMap>) -> Self {
        // The keys of the hasher are random.
        let turn = RandomState::new().build_hasher().finish() as usize % seeds.len().max(1);
        let nodes = Nodes {
            known: Vec::new(),
            turn,
        };
        Self {
            slot,
            seeds,
            map,
            owner: Primary::default(),
            nodes: Mutex::new(nodes),
        }
    }

    pub(super) fn owner(&self) -> &Primary {
        &self.owner
    }

    /// Connects to the owner of the slot.
    pub(super) async fn connect(&self, dialer: &Arc<Dialer>, role: Role) -> Result<Connection> {
        let (owner, changes) = match self.owner.get() {
            Some(owner) => owner,
            None => {
                let owner = self.find_owner(dialer).await?;
                let changes = self.owner.set(owner.clone());
                (owner, changes)
            }
        };
        let dialled = dialer.dial_node(&owner, role).await;
        let mut connection = dialled.map_err(|error| {
            self.owner.doubt();
            self.unreachable(&owner, error)
        })?;
        connection.changes = changes;
        Ok(connection)
    }

    /// Adds to an error the option that helps if a node cannot be reached at the address that it announces.
    pub(super) fn unreachable(&self, node: &Address, error: StoreError) -> StoreError {
        if error.kind() != StoreErrorKind::Unreachable || self.seeds.contains(node) {
            return error;
        }
        let message = format!(
            "{error}; the cluster announces this address: if it cannot be reached from here, say where that node is by \
             `redis_address_map`"
        );
        StoreError::new(error.kind(), message)
    }

    /// The redirect in an answer, with the reachable address of the node.
    pub(super) fn redirect(
        &self,
        (code, detail): (&str, &str),
        answered_by: &Address,
    ) -> Option<Result<Redirect>> {
        let redirect = Redirect::parse(code, detail, self.slot, &answered_by.host)?;
        Some(match redirect {
            Redirect::Moved(announced) => reach(&self.map, announced).map(Redirect::Moved),
            Redirect::Ask(announced) => reach(&self.map, announced).map(Redirect::Ask),
        })
    }

    /// The nodes to ask, in order. The last owner comes last: it is in doubt, and may be cut off from the others.
    fn candidates(&self) -> Vec<Address> {
        let mut nodes = lock(&self.nodes);
        let mut candidates = self.seeds.clone();
        for known in &nodes.known {
            if !candidates.contains(known) {
                candidates.push(known.clone());
            }
        }
        let turn = nodes.turn % candidates.len().max(1);
        nodes.turn = turn + 1;
        drop(nodes);
        candidates.rotate_left(turn);
        let last = self.owner.last();
        candidates.sort_by_key(|node| Some(node) == last.as_ref());
        candidates
    }

    async fn find_owner(&self, dialer: &Arc<Dialer>) -> Result<Address> {
        let answer = first_answer(self.candidates(), |node| {
            let (dialer, map, slot) = (dialer.clone(), self.map.clone(), self.slot);
            Box::pin(async move { ask(&dialer, &map, node, slot).await })
        });
        let (owner, nodes) = answer.await?;
        if !nodes.is_empty() {
            lock(&self.nodes).known = nodes;
        }
        Ok(owner)
    }
}

pub(super) fn reach(map: &Option<AddressMap>, announced: Address) -> Result<Address> {
    let Some(map) = map else {
        return Ok(announced);
    };
    map.reach(announced).map_err(|mapped| {
        let message = format!(
            "`redis_address_map` has given {mapped:.80?} for an address: it must be a host, a colon and a port"
        );
        StoreError::new(StoreErrorKind::Unexpected, message)
    })
}

/// Asks a node for the owner of a slot and for all nodes, with their reachable addresses.
async fn ask(
    dialer: &Dialer,
    map: &Option<AddressMap>,
    node: Address,
    slot: u16,
) -> Result<(Address, Vec<Address>)> {
    let mut connection = dialer.dial_node(&node, Role::Read).await?;
    let mut slots = cmd("CLUSTER");
    slots.arg("SLOTS");
    let server_info = dialer.server_info().of_node(&node);
    let SlotAnswer { owner, nodes } = match slots.query_async(&mut connection.commands).await {
        Ok(reply) => slot_answer(&reply, slot, &node.host),
        // Its answer to the first command will tell the owner.
        Err(error) if is_refusal(&error) => return Ok((node, Vec::new())),
        Err(error) => return Err(server_info.explain(&error)),
    };
    let Some(owner) = owner else {
        let message = format!(
            "it knows no node that serves slot {slot}, in which all keys of this service are: see its CLUSTER INFO"
        );
        return Err(server_info.error(StoreErrorKind::Refused, &message));
    };
    // A node with an invalid mapped address cannot be asked, and is not the owner.
    let nodes = nodes.into_iter().filter_map(|node| reach(map, node).ok());
    Ok((reach(map, owner)?, nodes.collect()))
}

/// Parses the answer to CLUSTER SLOTS: `first slot, last slot, owner, replicas…`, where each node is
/// `host, port, id, …`. A missing or empty host is that of the node which was asked.
fn slot_answer(reply: &Value, slot: u16, asked: &str) -> SlotAnswer {
    let node = |node: &Value| {
        let [host, port, ..] = items(node) else {
            return None;
        };
        let host = match host {
            Value::Nil => asked,
            host => match text(host)? {
                "" => asked,
                host => host,
            },
        };
        Address::announced(host, u16::try_from(int(port)?).ok()?)
    };
    let mut answer = SlotAnswer {
        owner: None,
        nodes: Vec::new(),
    };
    for range in items(reply) {
        let [first, last, nodes @ ..] = items(range) else {
            continue;
        };
        let (Some(first), Some(last)) = (int(first), int(last)) else {
            continue;
        };
        if (first..=last).contains(&i64::from(slot)) && answer.owner.is_none() {
            answer.owner = nodes.first().and_then(node);
        }
        for node in nodes.iter().filter_map(node) {
            if answer.nodes.len() < MAX_NODES && !answer.nodes.contains(&node) {
                answer.nodes.push(node);
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text, None).expect("an address")
    }

    fn node(host: Value, port: i64) -> Value {
        let id = Value::BulkString(b"07c37dfeb235213a872192d90877d0cd55635b91".to_vec());
        Value::Array(vec![host, Value::Int(port), id, Value::Array(Vec::new())])
    }

    fn host(name: &str) -> Value {
        Value::BulkString(name.as_bytes().to_vec())
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        let mut range = vec![Value::Int(first), Value::Int(last)];
        range.extend(nodes);
        Value::Array(range)
    }

    #[test]
    fn the_owner_is_the_first_node_of_the_range() {
        let reply = Value::Array(vec![
            range(0, 5460, vec![node(host("a"), 1), node(host("b"), 2)]),
            range(5461, 16_383, vec![node(host(""), 3), node(Value::Nil, 4)]),
        ]);
        let answer = slot_answer(&reply, 5460, "seed");
        assert_eq!(answer.owner, Some(address("a:1")));
        let nodes = ["a:1", "b:2", "seed:3", "seed:4"].map(address);
        assert_eq!(answer.nodes, nodes);
        let answer = slot_answer(&reply, 5461, "seed");
        assert_eq!(answer.owner, Some(address("seed:3")));
    }

    #[test]
    fn nonsense_names_no_owner() {
        for reply in [
            Value::Nil,
            Value::Int(1),
            Value::Array(Vec::new()),
            Value::Array(vec![Value::Nil, Value::Array(vec![Value::Int(0)])]),
            Value::Array(vec![range(0, 99, Vec::new())]),
            Value::Array(vec![range(99, 0, vec![node(host("a"), 1)])]),
            Value::Array(vec![range(i64::MIN, i64::MAX, vec![Value::Nil])]),
            Value::Array(vec![range(0, 99, vec![node(host("?"), 1)])]),
            Value::Array(vec![range(0, 99, vec![node(host("a\r\nb"), 1)])]),
            Value::Array(vec![range(0, 99, vec![node(host("a"), 1 << 40)])]),
        ] {
            let answer = slot_answer(&reply, 7, "seed");
            assert_eq!(answer.owner, None, "{reply:?}");
        }
    }

    #[test]
    fn a_hostile_answer_leaves_a_bounded_list() {
        let nodes = (1..=10_000).map(|port| node(host("a"), port)).collect();
        let reply = Value::Array(vec![range(0, 16_383, nodes)]);
        let answer = slot_answer(&reply, 7, "seed");
        assert_eq!(answer.nodes.len(), MAX_NODES);
    }

    #[test]
    fn nodes_are_asked_in_turn_and_the_last_owner_last() {
        let seeds: Vec<_> = ["a:1", "b:2"].map(address).into();
        let cluster = Cluster::new(7, seeds, None);
        lock(&cluster.nodes).known = ["b:2", "c:3"].map(address).into();
        let first = cluster.candidates();
        assert_eq!(first.len(), 3);
        assert_ne!(cluster.candidates()[0], first[0]);
        cluster.owner.set(address("c:3"));
        for _ in 0..3 {
            assert_eq!(cluster.candidates()[2], address("c:3"));
        }
    }

    #[test]
    fn a_node_that_cannot_be_reached_names_the_option() {
        let cluster = Cluster::new(7, vec![address("seed:1")], None);
        let error = || StoreError::new(StoreErrorKind::Unreachable, "Redis at 10.0.0.1:1: down");
        let explained = |node| cluster.unreachable(&address(node), error()).to_string();
        assert!(explained("10.0.0.1:1").contains("`redis_address_map`"));
        assert!(!explained("seed:1").contains("`redis_address_map`"));
    }
}
