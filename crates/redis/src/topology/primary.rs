//! The node that has all keys, as far as known: the owner of the slot, or the primary that Sentinel names.

use std::sync::Mutex;

use super::address::Address;
use tower_pulse_core::task::lock;

#[derive(Debug, Default)]
pub(super) struct Primary(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    address: Option<Address>,
    /// Whether the node may have changed.
    is_doubted: bool,
    /// The number of changes, by which a connection knows whether it leads to the node that is named now.
    changes: u64,
}

impl Primary {
    /// The node, unless it is doubted, and the number of changes.
    pub(super) fn get(&self) -> Option<(Address, u64)> {
        let state = lock(&self.0);
        let address = state.address.clone().filter(|_| !state.is_doubted)?;
        Some((address, state.changes))
    }

    /// The node that was named last.
    pub(super) fn last(&self) -> Option<Address> {
        lock(&self.0).address.clone()
    }

    pub(super) fn changes(&self) -> u64 {
        lock(&self.0).changes
    }

    /// Names the node. Returns the number of changes.
    pub(super) fn set(&self, address: Address) -> u64 {
        lock(&self.0).set(address)
    }

    /// Names the node according to an answer on a connection, unless it has changed since that connection was made.
    pub(super) fn set_since(&self, changes: u64, address: Address) {
        let mut state = lock(&self.0);
        if state.changes == changes {
            state.set(address);
        }
    }

    /// Makes the next connection look for the node again.
    pub(super) fn doubt(&self) {
        lock(&self.0).is_doubted = true;
    }
}

impl State {
    fn set(&mut self, address: Address) -> u64 {
        self.is_doubted = false;
        if self.address.as_ref() != Some(&address) {
            self.address = Some(address);
            self.changes += 1;
        }
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_that_is_older_than_a_change_is_dropped() {
        let node = |port| Address::announced("node", port).expect("an address");
        let primary = Primary::default();
        assert_eq!(primary.get(), None);
        assert_eq!(primary.set(node(1)), 1);
        assert_eq!(primary.set(node(1)), 1);
        primary.set_since(1, node(2));
        primary.set_since(1, node(3));
        assert_eq!(primary.get(), Some((node(2), 2)));
        primary.doubt();
        assert_eq!((primary.get(), primary.last()), (None, Some(node(2))));
        // The node is the same after all: connections to it stay.
        assert_eq!(primary.set(node(2)), 2);
        assert_eq!(primary.get(), Some((node(2), 2)));
    }
}
