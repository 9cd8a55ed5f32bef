//! The bytes of changes, of judgements and of the detector's state as 0.1.0 has written them. Each later version must
//! read these bytes, and write the same bytes.

use std::fmt::Debug;

use data_encoding::HEXLOWER;

use crate::change::{Change, ChangeKind, Earlier, Suspect};
use crate::detector::{Coverage, DetectorState, Watched};
use crate::last_judgement::LastJudgement;
use crate::noise::Noise;
use crate::reference::Past;
use crate::state::{Alarm, Ended, SharedMinute, SharedMinutes};
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::pack::{Packed, pack, unpack};

const BEFORE_A_CHANGE: &str = "no version number guards this form, and instances of 0.1.0 read it: add fields only at \
    the end, with defaults for stored data that lacks them, or take another table";

const CHANGE: &str = "\
    0c313730303030303430302d37050c474554202fc3a92f7b69647d01057765622d33a0ca9fd50c88cd9fd50c01d0d39fd50c\
    9a9999999999b93f333333333333d33f0000000000000840012b8716d9cef7ef3fb960070000000000000440000000000000\
    e03f000000000000d83f000000000000c03f04310110313730303030303334302d312e342e320d76657273696f6e20312e34\
    2e320105312e342e327701000000000000f83f350202057765622d33057765622d3102000000000000d03f000000000000e0\
    3f0000000000000040000000000000e83f057765622d3324030764623a66696e64000000000000d03f000000000000e03f00\
    0000000000ec3f0264621e04000000000000b03f000000000000c03f000000000000e03f04636f6465019a9999999999c93f\
    fffffffffffff73fba490c022b87963fd80400010a64625f74696d656f7574";

const JUDGED: &str = "1030313233343536373839616263646566ac02a0ca9fd50c140f020107474554202fc3a9a8c99fd50c000000000000f43f01";

const PARTS: [(&str, &str); 5] = [
    ("68", "a0ca9fd50c01bed4821bc243f98801901c80aaea55"),
    (
        "616dede11541bba0e102bed4821b",
        "\
        6dede11541bba0e102bad4821bbed4821b0280049fc21e030001639003ff0107b8d4821b3ca0380b80d4d4ab01f1c001b0ea\
        01c0cf24a09c01c0cf24904ec0cf24c0b802c0cf248f4ebf3eef2e9f1fcf0f00d00fa01ff02ec03e904ee05db06d807dd08c\
        01a09c01f0ab01c0bb0190cb01e0da01b0ea0180fa01d08902a09902f0a802c0b80290c802e0d702b0e70280f702d08603a0\
        9603f0a503c0b50390c503e0d403",
    ),
    (
        "656dede11541bba0e104e8d3821b90d4821b",
        "\
        6dede11541bba0e104e8d3821b90d4821b030001639003ff0107b8d4821b3ca0380b80d4d4ab01f1c001b0ea01c0cf24a09c\
        01c0cf24904ec0cf24c0b802c0cf248f4ebf3eef2e9f1fcf0f00d00fa01ff02ec03e904ee05db06d807dd08c01a09c01f0ab\
        01c0bb0190cb01e0da01b0ea0180fa01d08902a09902f0a802c0b80290c802e0d702b0e70280f702d08603a09603f0a503c0\
        b50390c503e0d403",
    ),
    (
        "69057765622d336dede11541bba0e101acd4821b",
        "057765622d336dede11541bba0e101a4d4821bacd4821bb6ce54a006",
    ),
    ("6d057765622d33", "057765622d33aed4821b"),
];

fn bytes(digits: &str) -> Vec<u8> {
    HEXLOWER.decode(digits.as_bytes()).expect("pairs of digits")
}

pub(crate) fn change() -> Change {
    Change {
        id: "1700000400-7".into(),
        kind: ChangeKind::Instance,
        context: "GET /é/{id}".into(),
        instance: Some("web-3".into()),
        error: Some("db_timeout".into()),
        since: 1_700_000_400,
        detected: 1_700_000_580,
        ended: Some(1_700_001_000),
        then: 0.1,
        now: 0.3,
        ratio: 3.0,
        is_tail: true,
        confidence: 0.999,
        requests: 12_345,
        minutes: 7,
        seconds_per_minute: 2.5,
        extra_seconds_per_minute: 0.5,
        from_traffic: 0.375,
        from_code: 0.125,
        suspects: vec![
            Suspect::Deploy {
                mark: "1700000340-1.4.2".into(),
                text: "version 1.4.2".into(),
                version: Some("1.4.2".into()),
                seconds_before: -60,
                side_by_side: Some(1.5),
            },
            Suspect::Instance {
                instances: vec!["web-3".into(), "web-1".into()],
                count: 2,
                then: 0.25,
                now: 0.5,
                ratio: 2.0,
                share: 0.75,
                text: "web-3".into(),
            },
            Suspect::Timer {
                timer: "db:find".into(),
                then: 0.25,
                now: 0.5,
                share: 0.875,
                text: "db".into(),
            },
            Suspect::Code {
                then: 0.0625,
                now: 0.125,
                share: 0.5,
                text: "code".into(),
            },
        ],
        yesterday: Some(Earlier::new(0.2, 0.3, 0.022, 600)),
        week_ago: None,
        acknowledged: None,
    }
}

fn judged() -> LastJudgement {
    let watched = Watched {
        since: 1_700_000_340,
        ratio: 1.25,
        is_tail: true,
    };
    LastJudgement {
        revision: "0123456789abcdef".into(),
        number: 300,
        until: 1_700_000_400,
        coverage: Coverage {
            contexts: 20,
            compared: 15,
            gaps: 2,
        },
        watched: vec![("GET /é".into(), watched)],
    }
}

/// A state with a part of each sort.
fn state() -> DetectorState {
    let noise = |deviation| Noise {
        deviation,
        correlation: 600_000,
    };
    let mut highest = [[0; 9]; 4];
    for (number, of_span) in (0..).zip(highest.iter_mut().flatten()) {
        *of_span = 1_000 * number - 5_000;
    }
    let past = Past {
        buckets: vec![(0, 1), (99, 400), (255, 7)],
        end: 28_333_340,
        minutes: 60,
        requests: 7_200,
        errors: 11,
        micros: 360_000_000,
        level: -12_345,
        noise: [30_000, 20_000, 10_000, 40_000].map(noise),
        highest,
    };
    let context = RecordId::new(Kind::Http, "GET /é");
    DetectorState {
        judged_until: 1_700_000_400,
        alarms: vec![Alarm {
            context,
            kind: ChangeKind::Failing,
            since: 28_333_341,
            detected: 28_333_343,
            score_kind: 2,
            strength: 512,
            effect: -250_000,
            past: past.clone(),
        }],
        ended: vec![Ended {
            context,
            kind: ChangeKind::Silent,
            from: 28_333_300,
            to: 28_333_320,
            past,
        }],
        shared: SharedMinutes(vec![SharedMinute {
            tick: 28_333_343,
            level: 4_321,
            traffic: -8_765,
            requests: 3_600,
            micros: 180_000_000,
        }]),
        instances: crate::instances::frozen_state("web-3", context),
    }
}

fn assert_frozen<T: Packed + Debug + PartialEq>(value: &T, frozen: &str) {
    let packed = HEXLOWER.encode(&pack(value));
    assert_eq!(packed, frozen, "{BEFORE_A_CHANGE}");
    assert_eq!(unpack::<T>(&bytes(frozen)).as_ref(), Some(value));
}

#[test]
fn changes_and_judgements_are_read_and_written_as_0_1_0_has_written_them() {
    assert_frozen(&change(), CHANGE);
    assert_frozen(&judged(), JUDGED);
}

#[test]
fn the_state_of_the_detector_is_read_and_written_as_0_1_0_has_written_it() {
    let parts = PARTS.map(|(name, part)| (bytes(name), bytes(part)));
    let read = DetectorState::from_parts(parts.iter().map(|(name, part)| (&**name, &**part)));
    assert_eq!(read, state());
    assert_eq!(state().parts(), parts, "{BEFORE_A_CHANGE}");
}
