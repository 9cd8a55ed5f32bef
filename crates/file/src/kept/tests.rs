//! The state and the entries of the journal as a file of 0.1.0 has them. Each later version must read them and write
//! the same bytes. `tests/frozen` has a whole file.

use std::fmt::Debug;

use data_encoding::HEXLOWER;

use super::*;
use tower_pulse_core::store::in_process::{EntryQueue, Fence, StoredState};
use tower_pulse_core::store::journal::{Entry, Partitions, Progress};
use tower_pulse_core::store::{Exceptions, Position};
use tower_pulse_model::pack::Packed;
use tower_pulse_model::snapshot::Problem;
use tower_pulse_model::tier::RolledUp;

/// Steps that are required before a form may change.
const BEFORE_A_CHANGE: &str = "a file outlives its process: raise VERSION (crates/file/src/disk.rs), so that an older \
    process leaves the file alone, and read the frozen form as well; or add fields at its end, which an older process may \
    forget, and this one must do without";

const STATE: &str = "\
    1566696c652d3031323334353637383961626364656680c49fd50cb0b49fd50ca0ca9fd50c01057765622d31ac029eca9fd5\
    0ca846d7b9ffffffffff07d836a7c9ffffffffff0701c03ebfc1ffffffffff0781818181818181818101c0c0c0c0c0c0c0c0\
    40a0a0a0a0a0a0a0a02090909010019cca9fd50c203031323334353637383961626364656630313233343536373839616263\
    64656602649bffffffffffff07c801b7feffffffffff07024d010608010a70756c73653a686974730661206c697374c0b79f\
    d50cd8c39fd50cbe01e0ca9ed50cd8cb9ed50cd0cc9ed50cc8cd9ed50cc0ce9ed50cb8cf9ed50cb0d09ed50ca8d19ed50ca0\
    d29ed50c98d39ed50c90d49ed50c88d59ed50c80d69ed50cf8d69ed50cf0d79ed50ce8d89ed50ce0d99ed50cd8da9ed50cd0\
    db9ed50cc8dc9ed50cc0dd9ed50cb8de9ed50cb0df9ed50ca8e09ed50ca0e19ed50c98e29ed50c90e39ed50c88e49ed50c80\
    e59ed50cf8e59ed50cf0e69ed50ce8e79ed50ce0e89ed50cd8e99ed50cd0ea9ed50cc8eb9ed50cc0ec9ed50cb8ed9ed50cb0\
    ee9ed50ca8ef9ed50ca0f09ed50c98f19ed50c90f29ed50c88f39ed50c80f49ed50cf8f49ed50cf0f59ed50ce8f69ed50ce0\
    f79ed50cd8f89ed50cd0f99ed50cc8fa9ed50cc0fb9ed50cb8fc9ed50cb0fd9ed50ca8fe9ed50ca0ff9ed50c98809fd50c90\
    819fd50c88829fd50c80839fd50cf8839fd50cf0849fd50ce8859fd50ce0869fd50cd8879fd50cd0889fd50cc8899fd50cc0\
    8a9fd50cb88b9fd50cb08c9fd50ca88d9fd50ca08e9fd50c988f9fd50c90909fd50c88919fd50c80929fd50cf8929fd50cf0\
    939fd50ce8949fd50ce0959fd50cd8969fd50cd0979fd50cc8989fd50cc0999fd50cb89a9fd50cb09b9fd50ca89c9fd50ca0\
    9d9fd50c989e9fd50c909f9fd50c88a09fd50c80a19fd50cf8a19fd50cf0a29fd50ce8a39fd50ce0a49fd50cd8a59fd50cd0\
    a69fd50cc8a79fd50cc0a89fd50cb8a99fd50cb0aa9fd50ca8ab9fd50ca0ac9fd50c98ad9fd50c90ae9fd50c88af9fd50c80\
    b09fd50cf8b09fd50cf0b19fd50ce8b29fd50ce0b39fd50cd8b49fd50cd0b59fd50cc8b69fd50cc0b79fd50cb8b89fd50cb0\
    b99fd50ca8ba9fd50ca0bb9fd50c98bc9fd50c90bd9fd50c88be9fd50c80bf9fd50cf8bf9fd50cf0c09fd50ce8c19fd50ce0\
    c29fd50cd8c39fd50cd0c49fd50cc8c59fd50cc0c69fd50cb8c79fd50cb0c89fd50ca8c99fd50ca0ca9fd50c98cb9fd50c90\
    cc9fd50c88cd9fd50c80ce9fd50cf8ce9fd50cf0cf9fd50ce8d09fd50ce0d19fd50cd8d29fd50cd0d39fd50cc8d49fd50cc0\
    d59fd50cb8d69fd50cb0d79fd50ca8d89fd50ca0d99fd50c98da9fd50c90db9fd50c88dc9fd50c80dd9fd50cf8dd9fd50cf0\
    de9fd50ce8df9fd50ce0e09fd50cd8e19fd50cd0e29fd50cc8e39fd50cc0e49fd50cb8e59fd50cb0e69fd50ca8e79fd50ca0\
    e89fd50c98e99fd50c90ea9fd50c88eb9fd50c80ec9fd50cf8ec9fd50cf0ed9fd50ce8ee9fd50ce0ef9fd50cd8f09fd50cd0\
    f19fd50cc8f29fd50cc0f39fd50cb8f49fd50cb0f59fd50ca8f69fd50ca0f79fd50c98f89fd50c90f99fd50c88fa9fd50c80\
    fb9fd50cf8fb9fd50c01f8b59fd50c98bc9fd50c";
const ENTRY: &str = "a846d7b9ffffffffff079cca9fd50c040c077061796c6f6164";
const COUNTS: &str = "02a8c99fd50c0da0ca9fd50cfeffffffffffffffff01";

fn bytes(digits: &str) -> Vec<u8> {
    HEXLOWER.decode(digits.as_bytes()).expect("pairs of digits")
}

fn position(offset: u64) -> Position {
    Position {
        offset,
        chain: 4_503_599_627_370_495 - offset,
    }
}

/// A state with a value in each field.
fn state() -> StoredState {
    let mut done = Partitions::default();
    (0..32).for_each(|at| done.insert(7 * at));
    let mut rolled = RolledUp::default();
    rolled.advance(1_699_999_995);
    StoredState {
        generation: "file-0123456789abcdef".into(),
        created: 1_700_000_000,
        since: 1_699_999_000,
        written_at: 1_700_000_400,
        fences: Map::from_iter([(
            "web-1".to_owned(),
            Fence {
                seq: 300,
                at: 1_700_000_399,
            },
        )]),
        journal: EntryQueue {
            entries: VecDeque::new(),
            head: position(9_000),
            progress: Progress {
                committed: position(7_000),
                round_end: Some(position(8_000)),
                done,
                newest_at: Some(1_700_000_398),
                version: "0123456789abcdef0123456789abcdef".into(),
                dead_letters: vec![position(100), position(200)],
                ..Progress::default()
            },
            set_aside: 2,
            hole_bytes: 77,
        },
        exceptions: Exceptions {
            late: 1,
            skewed: 6,
            quarantined: 8,
            quarantined_keys: vec![Problem::new("pulse:hits", "a list")],
        },
        ranked_since: 1_699_999_200,
        rolled,
        gaps: vec![(1_699_999_100, 1_699_999_500)],
    }
}

fn entry() -> Entry {
    Entry {
        position: position(9_000),
        appended_at: 1_700_000_398,
        version: 4,
        requests: 12,
        payload: b"payload".to_vec(),
    }
}

fn counts() -> Vec<(i64, i64)> {
    vec![(1_700_000_340, -7), (1_700_000_400, i64::MAX)]
}

fn assert_frozen<T: Packed + Debug + PartialEq>(value: &T, frozen: &str) {
    let packed = HEXLOWER.encode(&pack::pack(value));
    assert_eq!(packed, frozen, "{BEFORE_A_CHANGE}");
    assert_eq!(pack::unpack::<T>(&bytes(frozen)).as_ref(), Some(value));
}

#[test]
fn the_state_is_read_and_written_as_0_1_0_has_written_it() {
    assert_frozen(&state(), STATE);
}

#[test]
fn entries_and_counts_are_read_and_written_as_0_1_0_has_written_them() {
    assert_frozen(&entry(), ENTRY);
    assert_frozen(&counts(), COUNTS);
}
