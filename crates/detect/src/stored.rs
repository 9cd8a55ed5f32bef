//! The packed forms of a change, and of the detector's state. The state consists of parts, each small: one for each alarm,
//! and one for what all contexts share.

use super::change::{Change, ChangeKind, Earlier, Suspect, Taken};
use super::instances::OutOfLine;
use super::noise::Noise;
use super::reference::{Past, SCORES};
use super::state::{Alarm, AlarmKind, DetectorState, Ended, SharedMinute, SharedMinutes};
use tower_pulse_model::pack::{self, Packed, Reader, Writer, packed};

packed!(Noise {
    deviation,
    correlation
});
packed!(Past {
    buckets,
    end,
    minutes,
    requests,
    errors,
    micros,
    level,
    noise,
    highest
});
packed!(Alarm {
    context,
    kind,
    since,
    detected,
    score,
    strength,
    effect,
    past
});
packed!(Ended {
    context,
    kind,
    from,
    to,
    past
});
packed!(SharedMinute {
    tick,
    level,
    traffic,
    requests,
    micros
});
packed!(Taken { by, at });
packed!(Earlier {
    value,
    ratio,
    error,
    requests
});
packed!(Change {
    id,
    kind,
    context,
    instance,
    since,
    detected,
    ended,
    then,
    now,
    ratio,
    is_tail,
    confidence,
    requests,
    extra_seconds_per_minute,
    from_traffic,
    from_code,
    suspects,
    yesterday,
    week_ago,
    minutes,
    seconds_per_minute,
    // It is stored beside the judgements, which do not know it.
    ; unpacked taken,
});

/// Packs the place of a value among all values of its sort, which must not change.
macro_rules! packed_by_place {
    ($type:ty: $all:expr) => {
        impl Packed for $type {
            fn write(&self, out: &mut Writer) {
                let place = $all.iter().position(|value| value == self);
                place.unwrap_or($all.len()).write(out);
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                $all.get(usize::read(from)?).copied()
            }
        }
    };
}
packed_by_place!(ChangeKind: ChangeKind::ALL);
packed_by_place!(AlarmKind: AlarmKind::ALL);

/// A suspect with its kind; `None` if only a later version knows the kind.
struct KnownSuspect(Option<Suspect>);

const DEPLOY: u8 = 1;
const INSTANCE: u8 = 2;
const TIMER: u8 = 3;
const CODE: u8 = 4;
const MACHINE: u8 = 5;
const COMPUTING: u8 = 6;
const WAITING: u8 = 7;

impl Packed for Suspect {
    fn write(&self, out: &mut Writer) {
        match self {
            Suspect::Deploy {
                mark,
                text,
                version,
                seconds_before,
                side_by_side,
            } => {
                DEPLOY.write(out);
                (mark.clone(), text.clone()).write(out);
                version.write(out);
                (*seconds_before, *side_by_side).write(out);
            }
            Suspect::Instance {
                instance,
                ratio,
                share,
            } => {
                INSTANCE.write(out);
                instance.write(out);
                (*ratio, *share).write(out);
            }
            Suspect::Timer {
                timer,
                then,
                now,
                share,
            } => {
                TIMER.write(out);
                timer.write(out);
                ((*then, *now), *share).write(out);
            }
            Suspect::Code { then, now, share } => {
                CODE.write(out);
                ((*then, *now), *share).write(out);
            }
            Suspect::Machine {
                instance,
                delay,
                cpu,
                text,
            } => {
                MACHINE.write(out);
                (instance.clone(), text.clone()).write(out);
                (*delay, *cpu).write(out);
            }
            Suspect::Computing {
                then,
                now,
                share,
                longest,
                text,
            } => {
                COMPUTING.write(out);
                ((*then, *now), (*share, *longest)).write(out);
                text.write(out);
            }
            Suspect::Waiting {
                then,
                now,
                share,
                text,
            } => {
                WAITING.write(out);
                ((*then, *now), *share).write(out);
                text.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        KnownSuspect::read(from)?.0
    }

    /// Each with its length, so that those of a later version are skipped.
    fn write_list(list: &[Self], out: &mut Writer) {
        list.len().write(out);
        for suspect in list {
            out.bytes(&pack::pack(suspect));
        }
    }

    fn read_list(from: &mut Reader<'_>) -> Option<Vec<Self>> {
        let count = usize::read(from)?;
        let known = (0..count).map(|_| KnownSuspect::read(&mut Reader(from.bytes()?)));
        let known: Option<Vec<KnownSuspect>> = known.collect();
        Some(known?.into_iter().filter_map(|known| known.0).collect())
    }
}

impl KnownSuspect {
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self(match u8::read(from)? {
            DEPLOY => Some(Suspect::Deploy {
                mark: Packed::read(from)?,
                text: Packed::read(from)?,
                version: Packed::read(from)?,
                seconds_before: Packed::read(from)?,
                side_by_side: Packed::read(from)?,
            }),
            INSTANCE => Some(Suspect::Instance {
                instance: Packed::read(from)?,
                ratio: Packed::read(from)?,
                share: Packed::read(from)?,
            }),
            TIMER => Some(Suspect::Timer {
                timer: Packed::read(from)?,
                then: Packed::read(from)?,
                now: Packed::read(from)?,
                share: Packed::read(from)?,
            }),
            CODE => Some(Suspect::Code {
                then: Packed::read(from)?,
                now: Packed::read(from)?,
                share: Packed::read(from)?,
            }),
            MACHINE => {
                let (instance, text) = Packed::read(from)?;
                let (delay, cpu) = Packed::read(from)?;
                Some(Suspect::Machine {
                    instance,
                    delay,
                    cpu,
                    text,
                })
            }
            COMPUTING => Some(Suspect::Computing {
                then: Packed::read(from)?,
                now: Packed::read(from)?,
                share: Packed::read(from)?,
                longest: Packed::read(from)?,
                text: Packed::read(from)?,
            }),
            WAITING => Some(Suspect::Waiting {
                then: Packed::read(from)?,
                now: Packed::read(from)?,
                share: Packed::read(from)?,
                text: Packed::read(from)?,
            }),
            _ => None,
        }))
    }
}

impl Change {
    /// The packed change.
    pub fn pack(&self) -> Vec<u8> {
        pack::pack(self)
    }

    /// Unpacks a change; `None` if the bytes are not one, or are of a kind that only a later version knows.
    pub fn unpack(bytes: &[u8]) -> Option<Self> {
        pack::unpack(bytes)
    }
}

/// The name of a part begins with what it is.
const HEAD: &[u8] = b"h";
const ALARM: u8 = b'a';
const ENDED: u8 = b'e';
const OUT_OF_LINE: u8 = b'i';
const ON_MANY: u8 = b'm';

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
        parts.extend((self.instances.standing.iter()).map(|one| {
            let name = [&[OUT_OF_LINE][..], &one.name()].concat();
            (name, pack::pack(one))
        }));
        let on_many = self.instances.on_many.iter();
        parts.extend(on_many.map(|one| (named(ON_MANY, &one.0), pack::pack(one))));
        parts
    }

    /// The state of these parts. Those that cannot be read are left out.
    pub fn from_parts<'a>(parts: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut state = Self::default();
        for (name, part) in parts {
            match name.first().copied() {
                Some(ALARM) => {
                    let alarm = pack::unpack::<Alarm>(part);
                    state
                        .alarms
                        .extend(alarm.filter(|alarm| alarm.score < SCORES));
                }
                Some(ENDED) => state.ended.extend(pack::unpack::<Ended>(part)),
                Some(OUT_OF_LINE) => {
                    let standing = &mut state.instances.standing;
                    standing.extend(pack::unpack::<OutOfLine>(part));
                }
                Some(ON_MANY) => state.instances.on_many.extend(pack::unpack(part)),
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
    use std::sync::Arc;

    use super::*;
    use crate::detector::{Detector, Minute};
    use crate::log::{Log, tests::slower};

    /// A change with all that a change may have.
    fn change() -> Change {
        let mut log = Log::default();
        let began = log.apply(&[slower("GET /é", 600)], 600).began;
        let mut change = log.get(&began[0]).expect("it has begun").clone();
        let text = |text: &str| -> Arc<str> { text.into() };
        change.suspects = vec![
            Suspect::Deploy {
                mark: text("m"),
                text: text("version 2"),
                version: Some(text("2")),
                seconds_before: -60,
                side_by_side: Some(1.5),
            },
            Suspect::Instance {
                instance: text("web-1"),
                ratio: 2.0,
                share: 0.5,
            },
            Suspect::Timer {
                timer: text("db"),
                then: 0.1,
                now: 0.2,
                share: 0.9,
            },
            Suspect::Code {
                then: 0.01,
                now: 0.02,
                share: 0.6,
            },
            Suspect::Computing {
                then: 0.01,
                now: 0.03,
                share: 0.7,
                longest: 0.18,
                text: text("computes"),
            },
            Suspect::Waiting {
                then: 0.04,
                now: 0.02,
                share: 0.8,
                text: text("waits"),
            },
        ];
        (change.instance, change.ended) = (Some(text("web-2")), Some(i64::MAX));
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
        let packed = change.pack();
        assert_eq!(Change::unpack(&packed), Some(change.clone()));
        let longer = [&packed[..], b"of a later version"].concat();
        assert_eq!(Change::unpack(&longer), Some(change));
        for length in 0..packed.len() {
            assert_eq!(Change::unpack(&packed[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_suspect_of_a_later_version_is_left_out() {
        let suspects = change().suspects;
        // Its number is behind the count, and the length of each.
        let mut packed = pack::pack(&suspects);
        assert_eq!(packed[2], DEPLOY);
        packed[2] = 99;
        assert_eq!(
            pack::unpack::<Vec<Suspect>>(&packed),
            Some(suspects[1..].to_vec())
        );
    }

    /// A state with numbers that nobody would write.
    fn extreme(number: i32) -> DetectorState {
        let context = crate::minute::all_id();
        let alarm = |kind| Alarm {
            context,
            kind,
            since: number,
            detected: number,
            score: 0,
            strength: u32::MAX,
            effect: i64::from(number),
            past: Past::default(),
        };
        DetectorState {
            judged_until: i64::from(number),
            alarms: AlarmKind::ALL.map(alarm).into(),
            shared: SharedMinutes(vec![SharedMinute {
                tick: number,
                ..SharedMinute::default()
            }]),
            ..DetectorState::default()
        }
    }

    #[test]
    fn a_detector_goes_on_from_numbers_that_nobody_would_write() {
        for number in [i32::MIN, 0, i32::MAX] {
            let parts = extreme(number).parts();
            let parts = parts.iter().map(|(name, part)| (&**name, &**part));
            let state = DetectorState::from_parts(parts);
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
        broken.alarms[0].score = SCORES;
        let broken = broken.parts();
        let parts = broken.iter().map(|(name, part)| (&**name, &**part));
        assert_eq!(DetectorState::from_parts(parts).alarms, state.alarms[1..]);
    }
}
