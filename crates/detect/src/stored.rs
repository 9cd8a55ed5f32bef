//! The packed forms of a change, and of the detector's state. The state consists of small parts, such as one for each
//! alarm.

use super::change::{ChangeKind, Suspect};
use super::instances::OutOfLine;
use super::reference::SCORES;
use super::state::{Alarm, DetectorState, Ended, SharedMinute, SharedMinutes};
use tower_pulse_model::pack::{self, Packed, packed_enum};

packed_enum!(Suspect {
    1 => Deploy { mark, text, version, seconds_before, side_by_side },
    2 => Instance { instances, count, then, now, ratio, share, text },
    3 => Timer { timer, then, now, share, text },
    4 => Code { then, now, share, text },
    5 => Machine { instance, text, delay, cpu },
    6 => Computing { then, now, share, longest, text },
    7 => Waiting { then, now, share, text },
    8 => Failures { timer, statuses, text, code, error },
    9 => Traffic { busiest, text },
});

/// The first byte of a part's name tells the sort of the part.
const HEAD: &[u8] = b"h";
const ALARM: u8 = b'a';
const ENDED: u8 = b'e';
const OUT_OF_LINE: u8 = b'i';
/// Instances that are out of line on many contexts.
const OUT_OF_LINE_ON_MANY: u8 = b'm';

fn named(sort: u8, name: &impl Packed) -> Vec<u8> {
    [&[sort][..], &pack::pack(name)].concat()
}

impl DetectorState {
    /// The packed parts with their names, each at most some kilobytes.
    pub fn parts(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let head = pack::pack(&(self.judged_until, self.shared.0.clone()));
        let mut parts = vec![(HEAD.to_vec(), head)];
        parts.extend(self.alarms.iter().map(|alarm| {
            let name = ((alarm.context, alarm.kind), alarm.detected);
            (named(ALARM, &name), pack::pack(alarm))
        }));
        parts.extend(self.ended.iter().map(|ended| {
            let name = ((ended.context, ended.kind), (ended.from, ended.to));
            (named(ENDED, &name), pack::pack(ended))
        }));
        let ongoing = self.instances.ongoing.iter();
        parts.extend(ongoing.map(|one| (named(OUT_OF_LINE, &one.name()), pack::pack(one))));
        let on_many = self.instances.on_many.iter();
        parts.extend(on_many.map(|one| (named(OUT_OF_LINE_ON_MANY, &one.0), pack::pack(one))));
        parts
    }

    /// The state of these parts. Parts that cannot be read are left out.
    pub fn from_parts<'a>(parts: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut state = Self::default();
        for (name, part) in parts {
            match name.first().copied() {
                Some(ALARM) => {
                    let of_others = [ChangeKind::Instance, ChangeKind::NewError];
                    let alarm = pack::unpack::<Alarm>(part).filter(|alarm| {
                        alarm.score_kind < SCORES && !of_others.contains(&alarm.kind)
                    });
                    state.alarms.extend(alarm);
                }
                Some(ENDED) => state.ended.extend(pack::unpack::<Ended>(part)),
                Some(OUT_OF_LINE) => {
                    let ongoing = &mut state.instances.ongoing;
                    ongoing.extend(pack::unpack::<OutOfLine>(part));
                }
                Some(OUT_OF_LINE_ON_MANY) => state.instances.on_many.extend(pack::unpack(part)),
                _ if name == HEAD => {
                    let head: Option<(i64, Vec<SharedMinute>)> = pack::unpack(part);
                    let (until, shared) = head.unwrap_or_default();
                    (state.judged_until, state.shared) = (until, SharedMinutes(shared));
                }
                _ => {}
            }
        }
        state.sort();
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Change, Earlier};
    use crate::detector::{Detector, Minute};
    use crate::reference::Past;

    /// The change of `tests::frozen`, with the other suspects and with extreme figures.
    fn change() -> Change {
        let mut change = crate::tests::frozen::change();
        change.suspects.extend([
            Suspect::Computing {
                then: 0.01,
                now: 0.03,
                share: 0.7,
                longest: 0.18,
                text: "computes".into(),
            },
            Suspect::Waiting {
                then: 0.04,
                now: 0.02,
                share: 0.8,
                text: "waits".into(),
            },
            Suspect::Failures {
                timer: Some("payment".into()),
                statuses: vec!["502".into(), "panicked".into()],
                code: Some("502".into()),
                error: Some("gateway".into()),
                text: "fails".into(),
            },
            Suspect::Traffic {
                busiest: Some("web-1".into()),
                text: "alike".into(),
            },
        ]);
        change.week_ago = Some(Earlier {
            value: f64::MIN_POSITIVE,
            ratio: -1.0,
            error: 0.09,
            requests: u64::MAX,
        });
        change
    }

    #[test]
    fn a_change_is_the_same_after_it_was_packed() {
        let change = change();
        let packed = pack::pack(&change);
        assert_eq!(pack::unpack::<Change>(&packed), Some(change.clone()));
        let longer = [&packed[..], b"of a later version"].concat();
        assert_eq!(pack::unpack::<Change>(&longer), Some(change));
        for length in 0..packed.len() {
            let cut = pack::unpack::<Change>(&packed[..length]);
            assert_eq!(cut, None, "{length} bytes");
        }
    }

    #[test]
    fn a_suspect_of_a_later_version_is_left_out() {
        let suspects = change().suspects;
        // The number of suspects and the length of the first one precede the first suspect's variant number.
        let mut packed = pack::pack(&suspects);
        assert_eq!(packed[2], 1);
        packed[2] = 99;
        let read: Vec<Suspect> = pack::unpack(&packed).expect("it is a list");
        assert_eq!(read, suspects[1..]);
    }

    fn extreme(number: i32) -> DetectorState {
        let context = crate::minute::all_id();
        use ChangeKind::{Failing, Faster, Refusing, Silent, Slower, Surging};
        let kinds = [Slower, Faster, Failing, Surging, Silent, Refusing];
        let alarm = |kind| Alarm {
            context,
            kind,
            since: number,
            detected: number,
            score_kind: 0,
            strength: u32::MAX,
            effect: i64::from(number),
            past: Past::default(),
        };
        DetectorState {
            judged_until: i64::from(number),
            alarms: kinds.map(alarm).into(),
            shared: SharedMinutes(vec![SharedMinute {
                tick: number,
                ..SharedMinute::default()
            }]),
            ..DetectorState::default()
        }
    }

    #[test]
    fn a_detector_resumes_from_any_numbers() {
        for number in [i32::MIN, 0, i32::MAX] {
            let state = crate::tests::stored(&extreme(number));
            assert_eq!(state, extreme(number));
            let mut detector = Detector::new(state);
            for minute in 0..3 {
                detector.judge(&Minute {
                    start: 1_700_000_040 + 60 * minute,
                    contexts: Vec::new(),
                    instances: Vec::new(),
                });
            }
        }
    }

    #[test]
    fn parts_that_cannot_be_read_are_left_out() {
        let state = extreme(7);
        let parts = state.parts();
        for length in 0..40 {
            let garbage = vec![0xff; length];
            let parts = parts.iter().map(|(name, _)| (&**name, &garbage[..]));
            let state = DetectorState::from_parts(parts);
            assert_eq!(state, DetectorState::default(), "{length} bytes");
        }
        let mut broken = state.clone();
        broken.alarms[0].score_kind = SCORES;
        let read = crate::tests::stored(&broken);
        assert_eq!(read.alarms, state.alarms[1..]);
    }
}
