//! The entries of the journal, and how far the journal is folded.

use std::collections::VecDeque;

use crate::store::journal::{Entry, Progress};
use crate::store::{Position, Receipt};
use tower_pulse_model::context::fnv1a;
use tower_pulse_model::pack::packed;

/// The number of bits of a position's chain, the same as in Redis.
const CHAIN_BITS: u32 = 52;

packed! {
    /// The entries, and how far the journal is folded.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct EntryQueue {
        /// The position of the newest entry that was ever appended.
        pub head: Position,
        /// How far the journal is folded.
        pub progress: Progress,
        /// Number of requests in entries that were set aside.
        pub set_aside: u64,
        /// Bytes of entries that were lost before they were folded.
        pub hole_bytes: u64,
        // Fields after the `;` are not packed: a file stores each entry by itself.
        ;
        /// Entries that are not folded, oldest first.
        pub entries: VecDeque<Entry>,
    }

    /// The number of the last call of an instance, and when it was appended.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Fence {
        /// The number of the call.
        pub seq: u64,
        /// When the call was appended, in Unix seconds.
        pub at: i64,
    }
}

impl EntryQueue {
    /// Adds a call as the newest entry. `seq` is the number of the call.
    pub(super) fn enter(&mut self, instance: &str, seq: u64, mut entry: Entry) {
        let before = self.head.chain.to_be_bytes();
        let id = before.into_iter().chain(instance.bytes());
        let (seq, at) = (seq.to_be_bytes(), entry.appended_at.to_be_bytes());
        self.head = Position {
            offset: self.head.offset + entry.payload.len() as u64 + 1,
            chain: fnv1a(id.chain(seq).chain(at)) >> (u64::BITS - CHAIN_BITS),
        };
        entry.position = self.head;
        self.entries.push_back(entry);
    }

    pub(super) fn unfolded_bytes(&self) -> u64 {
        self.head.offset - self.progress.committed.offset
    }

    /// The end of the round that was begun or, between two rounds, the end of all entries.
    pub(super) fn end(&self) -> Position {
        self.progress.round_end.unwrap_or(self.head)
    }

    /// The receipt names no leader, because there is no lease: each instance folds after its own append.
    pub(super) fn receipt(&self) -> Receipt {
        Receipt {
            position: self.head,
            folded: self.progress.committed,
            has_leader: false,
        }
    }

    pub(super) fn has(&self, position: Position) -> bool {
        position == self.head || self.entries.iter().any(|entry| entry.position == position)
    }

    pub(super) fn finish(&mut self, round_end: Position) {
        self.progress.finish(round_end);
        let folded = self
            .entries
            .partition_point(|entry| entry.position.offset <= round_end.offset);
        self.entries.drain(..folded);
    }

    pub(super) fn after(&self, from: Position, bytes: u64) -> Vec<Entry> {
        let end = self.end();
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
