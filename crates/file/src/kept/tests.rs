//! The state and the entries of the journal in a file of 0.1.0. Each later version must read these bytes, and write the
//! same bytes. `tests/frozen` has a whole file.

use std::fmt::Debug;

use data_encoding::HEXLOWER;

use super::*;
use tower_pulse_core::store::in_process::{EntryQueue, Fence, StoredState};
use tower_pulse_core::store::journal::{Entry, Partitions, Progress};
use tower_pulse_core::store::{Exceptions, Position};
use tower_pulse_model::pack::Packed;
use tower_pulse_model::snapshot::Problem;

const TO_CHANGE_A_FORM: &str = "files outlive their process. Either raise VERSION (crates/file/src/disk.rs), and also \
    read the frozen form: older versions then refuse the file. Or add fields at the end: older versions drop these, so \
    this version must work without them";

const STATE: &str = "\
    1566696c652d3031323334353637383961626364656680c49fd50cb0b49fd50ca0ca9fd50c01057765622d31ac029eca9fd5\
    0ca846d7b9ffffffffff07d836a7c9ffffffffff0701c03ebfc1ffffffffff0781818181818181818101c0c0c0c0c0c0c0c0\
    40a0a0a0a0a0a0a0a02090909010019cca9fd50c203031323334353637383961626364656630313233343536373839616263\
    64656602649bffffffffffff07c801b7feffffffffff07024d010608010a70756c73653a686974730661206c697374c0b79f\
    d50cd8c39fd50c02e0ca9ed50cd8cb9ed50c01f8b59fd50c98bc9fd50c";
/// The part of [`STATE`] about rolled-up slices: the end of these slices, and two pending slices.
const ROLLED: &str = "d8c39fd50c02e0ca9ed50cd8cb9ed50c";
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

/// A state with values in most fields.
fn state() -> StoredState {
    let mut done = Partitions::default();
    (0..32).for_each(|at| done.insert(7 * at));
    let fence = Fence {
        seq: 300,
        at: 1_700_000_399,
    };
    StoredState {
        generation: "file-0123456789abcdef".into(),
        created: 1_700_000_000,
        since: 1_699_999_000,
        written_at: 1_700_000_400,
        fences: Map::from_iter([("web-1".to_owned(), fence)]),
        journal: EntryQueue {
            entries: VecDeque::new(),
            head: position(9_000),
            progress: Progress {
                committed: position(7_000),
                round_end: Some(position(8_000)),
                done,
                newest_at: Some(1_700_000_398),
                version: "0123456789abcdef0123456789abcdef".into(),
                unreadable: vec![position(100), position(200)],
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
        rolled: pack::unpack(&bytes(ROLLED)).expect("the form of 0.1.0"),
        gaps: vec![(1_699_999_100, 1_699_999_500)],
    }
}

fn assert_frozen<T: Packed + Debug + PartialEq>(value: &T, frozen: &str) {
    let packed = HEXLOWER.encode(&pack::pack(value));
    assert_eq!(packed, frozen, "{TO_CHANGE_A_FORM}");
    assert_eq!(pack::unpack::<T>(&bytes(frozen)).as_ref(), Some(value));
}

#[test]
fn the_state_entries_and_counts_have_the_form_of_0_1_0() {
    assert_frozen(&state(), STATE);
    let entry = Entry {
        position: position(9_000),
        appended_at: 1_700_000_398,
        version: 4,
        requests: 12,
        payload: b"payload".to_vec(),
    };
    assert_frozen(&entry, ENTRY);
    let counts = vec![(1_700_000_340_i64, -7_i64), (1_700_000_400, i64::MAX)];
    assert_frozen(&counts, COUNTS);
}
