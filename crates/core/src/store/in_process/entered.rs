//! The entries of the journal, and how far they are folded.

use std::collections::VecDeque;

use crate::store::journal::{Entry, Partitions};
use crate::store::{FencedBatch, Position, Receipt};
use tower_pulse_model::context::fnv1a;
use tower_pulse_model::entry::{self, ENTRY_VERSION};
use tower_pulse_model::pack::packed;

/// The bits of a position's chain, as in Redis.
const CHAIN_BITS: u32 = 52;

packed! {
    /// The entries, and how far they are folded.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Entered {
        /// The position of the newest entry that was ever appended.
        pub head: Position,
        /// The position up to which all entries are folded.
        pub low: Position,
        /// The end of the round that was begun, if one was.
        pub upto: Option<Position>,
        /// The partitions of that round that are folded.
        pub done: Partitions,
        /// The newest stamp of that round.
        pub stamp: Option<i64>,
        /// The version, which each step must give and replaces.
        pub version: String,
        /// Entries of that round, or the first one, that no instance can read.
        pub aside: Vec<Position>,
        /// Requests in all entries that were set aside.
        pub set_aside: u64,
        /// Bytes of entries that were gone before they were folded.
        pub hole_bytes: u64,
        // A file has a place for each.
        ;
        /// Entries that are not folded, oldest first.
        pub entries: VecDeque<Entry>,
    }

    /// The number of the last call of an instance, and when it was appended.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Fence {
        /// The number of the call.
        pub seq: u64,
        /// In Unix seconds.
        pub at: i64,
    }
}

/// A call, with its batch as the journal has it.
#[derive(Debug)]
pub(super) struct PackedCall {
    pub(super) generation: String,
    pub(super) instance: String,
    pub(super) seq: u64,
    pub(super) previous: u64,
    /// When its first sample was recorded, in Unix seconds.
    pub(super) since: Option<i64>,
    requests: u64,
    payload: Vec<u8>,
}

impl PackedCall {
    pub(super) fn new(call: &FencedBatch) -> Self {
        Self {
            generation: call.generation.clone(),
            instance: call.instance.clone(),
            seq: call.seq,
            previous: call.previous,
            since: call.batch.since,
            requests: call.batch.requests(),
            payload: entry::pack(&call.batch),
        }
    }
}

impl Entered {
    /// Whether all entries are folded.
    #[cfg(any(test, feature = "__test_store"))]
    pub fn is_folded(&self) -> bool {
        self.low == self.head
    }

    pub(super) fn enter(&mut self, call: PackedCall, now: i64) {
        let before = self.head.chain.to_be_bytes();
        let id = before
            .into_iter()
            .chain(call.instance.bytes())
            .chain(call.seq.to_be_bytes());
        self.head = Position {
            offset: self.head.offset + call.payload.len() as u64 + 1,
            chain: fnv1a(id.chain(now.to_be_bytes())) >> (u64::BITS - CHAIN_BITS),
        };
        self.entries.push_back(Entry {
            position: self.head,
            stamp: now,
            version: u64::from(ENTRY_VERSION),
            requests: call.requests,
            payload: call.payload,
        });
    }

    /// No instance waits for a lease: each that has appended folds.
    pub(super) fn receipt(&self) -> Receipt {
        Receipt {
            position: self.head,
            folded: self.low,
            is_attended: false,
        }
    }

    pub(super) fn has(&self, position: Position) -> bool {
        position == self.head || self.entries.iter().any(|entry| entry.position == position)
    }

    /// Notes that all entries of the round are folded.
    pub(super) fn finish(&mut self, upto: Position) {
        (self.low, self.upto) = (upto, None);
        self.aside.clear();
        let folded = self
            .entries
            .partition_point(|entry| entry.position.offset <= upto.offset);
        self.entries.drain(..folded);
    }

    pub(super) fn after(&self, from: Position, bytes: u64) -> Vec<Entry> {
        let end = self.upto.unwrap_or(self.head);
        let entries = self.entries.iter();
        let entries = entries.skip_while(|entry| entry.position.offset <= from.offset);
        let entries = entries.take_while(|entry| entry.position.offset <= end.offset);
        let within = from.offset.saturating_add(bytes);
        let mut read = Vec::new();
        for entry in entries {
            if !read.is_empty() && entry.position.offset > within {
                break;
            }
            read.push(entry.clone());
        }
        read
    }
}
