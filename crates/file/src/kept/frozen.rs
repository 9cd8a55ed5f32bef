//! The state and the entries of the journal as a file of 0.1.0 has them. Each later version reads them, and writes no others
//! unnoticed. `tests/frozen` has a whole file.

use data_encoding::HEXLOWER;

use super::*;

/// What has to be done before a form may change.
const BEFORE_A_CHANGE: &str = "a file outlives its process: raise VERSION (crates/file/src/disk.rs), so that an older \
    process leaves the file alone, and read the frozen form as well; or add fields at its end, which an older process may \
    forget, and this one must do without";

const STATE: &str = "\
    1566696c652d3031323334353637383961626364656680c49fd50cb0b49fd50ca0ca9fd50c01057765622d31ac029eca9fd5\
    0ca846d7b9ffffffffff07d836a7c9ffffffffff0701c03ebfc1ffffffffff07403066306630663066306630663066306630\
    6630663066306630663066306630663066306630663066306630663066306630663066306630663066306630663066019cca\
    9fd50c20303132333435363738396162636465663031323334353637383961626364656602649bffffffffffff07c801b7fe\
    ffffffffff07024d010608010a70756c73653a686974730661206c697374c0b79fd50c153136393939393939383020313639\
    3939393932303001f8b59fd50c98bc9fd50c";
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

/// A state with something in each field.
fn state() -> KeptState {
    KeptState {
        generation: "file-0123456789abcdef".into(),
        created: 1_700_000_000,
        since: 1_699_999_000,
        written_at: 1_700_000_400,
        fences: vec![KeptFence {
            instance: "web-1".into(),
            seq: 300,
            at: 1_700_000_399,
        }],
        head: position(9_000),
        low: position(7_000),
        upto: Some(position(8_000)),
        done: "0f".repeat(32).into(),
        stamp: Some(1_700_000_398),
        version: "0123456789abcdef0123456789abcdef".into(),
        aside: vec![position(100), position(200)],
        set_aside: 2,
        hole_bytes: 77,
        late: 1,
        skewed: 6,
        quarantined: 8,
        quarantined_keys: vec![KeptProblem {
            key: "pulse:hits".into(),
            reason: "a list".into(),
        }],
        ranked_since: 1_699_999_200,
        rolled: "1699999980 1699999200".into(),
        gaps: vec![KeptGap {
            from: 1_699_999_100,
            to: 1_699_999_500,
        }],
    }
}

fn entry() -> Entry {
    Entry {
        position: position(9_000),
        stamp: 1_700_000_398,
        version: 4,
        requests: 12,
        payload: b"payload".to_vec(),
    }
}

fn counts() -> Vec<KeptCount> {
    let count = |start, n| KeptCount { start, n };
    vec![count(1_700_000_340, -7), count(1_700_000_400, i64::MAX)]
}

#[test]
fn the_state_is_read_and_written_as_0_1_0_has_written_it() {
    let read = pack::unpack::<KeptState>(&bytes(STATE)).expect("a state");
    assert_eq!(format!("{read:?}"), format!("{:?}", state()));
    assert_eq!(
        HEXLOWER.encode(&pack::pack(&state())),
        STATE,
        "{BEFORE_A_CHANGE}"
    );
}

#[test]
fn entries_and_counts_are_read_and_written_as_0_1_0_has_written_them() {
    let read = read_entry(&bytes(ENTRY)).expect("an entry");
    assert_eq!(format!("{read:?}"), format!("{:?}", entry()));
    assert_eq!(
        HEXLOWER.encode(&pack_entry(&entry())),
        ENTRY,
        "{BEFORE_A_CHANGE}"
    );
    let read = pack::unpack::<Vec<KeptCount>>(&bytes(COUNTS)).expect("counts");
    assert_eq!(format!("{read:?}"), format!("{:?}", counts()));
    assert_eq!(
        HEXLOWER.encode(&pack::pack(&counts())),
        COUNTS,
        "{BEFORE_A_CHANGE}"
    );
}
