//! The names of tables in the file. A field is stored under the name of its table and its own. Codes and forms are
//! frozen: files of earlier versions have them.

use std::sync::Arc;

use tower_pulse_core::store::table::Table;

/// The name of a table. No name is the beginning of another one.
pub(super) fn name_of(table: &Table) -> Vec<u8> {
    let mut name = Vec::with_capacity(16);
    let mut push = |code: u8, numbers: &[i64], ranking: Option<&str>| {
        name.push(code);
        if let Some(ranking) = ranking {
            // A ranking's name is short.
            name.extend_from_slice(&(ranking.len() as u32).to_be_bytes());
            name.extend_from_slice(ranking.as_bytes());
        }
        for number in numbers {
            name.extend_from_slice(&number.to_be_bytes());
        }
    };
    match table {
        Table::Records { seconds, start } => push(1, &[i64::from(*seconds), *start], None),
        Table::SlowRequests { hour } => push(2, &[*hour], None),
        Table::InstanceMinutes { minute } => push(3, &[*minute], None),
        Table::VersionMinutes { minute } => push(4, &[*minute], None),
        Table::Marks => push(5, &[], None),
        Table::Rankings => push(6, &[], None),
        Table::RankingSpecs => push(7, &[], None),
        Table::RankingsDropped => push(8, &[], None),
        Table::RankingSlice { ranking, start } => push(9, &[*start], Some(ranking)),
        Table::RankingTotals { ranking } => push(10, &[], Some(ranking)),
        Table::RankingNewest { ranking } => push(11, &[], Some(ranking)),
        Table::Judgement => push(12, &[], None),
        Table::Changes => push(13, &[], None),
        Table::Detector => push(14, &[], None),
        Table::Contexts => push(15, &[], None),
        Table::Timers => push(16, &[], None),
        Table::History => push(17, &[], None),
        Table::Profiles { start } => push(18, &[*start], None),
    }
    name
}

/// The table of a name; `None` if this version has no such table.
pub(super) fn table_of(name: &[u8]) -> Option<Table> {
    let (code, rest) = name.split_first()?;
    let mut unread = rest;
    let table = match code {
        1 => Table::Records {
            seconds: u32::try_from(number(&mut unread)?).ok()?,
            start: number(&mut unread)?,
        },
        2 => Table::SlowRequests {
            hour: number(&mut unread)?,
        },
        3 => Table::InstanceMinutes {
            minute: number(&mut unread)?,
        },
        4 => Table::VersionMinutes {
            minute: number(&mut unread)?,
        },
        5 => Table::Marks,
        6 => Table::Rankings,
        7 => Table::RankingSpecs,
        8 => Table::RankingsDropped,
        9 => Table::RankingSlice {
            ranking: text(&mut unread)?,
            start: number(&mut unread)?,
        },
        10 => Table::RankingTotals {
            ranking: text(&mut unread)?,
        },
        11 => Table::RankingNewest {
            ranking: text(&mut unread)?,
        },
        12 => Table::Judgement,
        13 => Table::Changes,
        14 => Table::Detector,
        15 => Table::Contexts,
        16 => Table::Timers,
        17 => Table::History,
        18 => Table::Profiles {
            start: number(&mut unread)?,
        },
        _ => return None,
    };
    unread.is_empty().then_some(table)
}

fn number(unread: &mut &[u8]) -> Option<i64> {
    let (bytes, behind) = unread.split_first_chunk()?;
    *unread = behind;
    Some(i64::from_be_bytes(*bytes))
}

fn text(unread: &mut &[u8]) -> Option<Arc<str>> {
    let (length, behind) = unread.split_first_chunk()?;
    let (text, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *unread = behind;
    std::str::from_utf8(text).ok().map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_is_found_by_its_name_and_none_by_another() {
        let ranking: Arc<str> = "posts".into();
        let tables = [
            Table::records((60, 1_700_000_040)),
            Table::records((86_400, -86_400)),
            Table::SlowRequests { hour: 3_600 },
            Table::InstanceMinutes { minute: 60 },
            Table::VersionMinutes { minute: 60 },
            Table::Marks,
            Table::Rankings,
            Table::RankingSpecs,
            Table::RankingsDropped,
            Table::RankingSlice {
                ranking: ranking.clone(),
                start: 3_600,
            },
            Table::RankingTotals {
                ranking: ranking.clone(),
            },
            Table::RankingNewest { ranking },
            Table::Judgement,
            Table::Changes,
            Table::Detector,
            Table::Contexts,
            Table::Timers,
            Table::History,
            Table::Profiles { start: 3_024_000 },
        ];
        for table in &tables {
            let name = name_of(table);
            assert_eq!(table_of(&name).as_ref(), Some(table));
            assert_eq!(table_of(&[&name[..], b"x"].concat()), None);
            let others = tables.iter().filter(|other| *other != table);
            for other in others {
                assert!(!name_of(other).starts_with(&name), "{table:?} {other:?}");
            }
        }
        // Files of 0.1.0 have these codes.
        let codes: Vec<u8> = tables.iter().map(|table| name_of(table)[0]).collect();
        assert_eq!(codes, [&[1][..], &(1..=18).collect::<Vec<_>>()].concat());
        assert_eq!(table_of(&[]), None);
        assert_eq!(table_of(&[200]), None);
        assert_eq!(
            name_of(&tables[0]),
            [
                &[1][..],
                &[0; 7],
                &[60],
                &[0; 4],
                &1_700_000_040u32.to_be_bytes()
            ]
            .concat()
        );
    }
}
