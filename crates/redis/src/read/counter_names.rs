//! Reads the names of the user's counters.

use std::collections::HashSet;

use redis::pipe;

use crate::RedisStore;
use crate::connection::Role;
use crate::value::{bytes, items, text};
use tower_pulse_core::error::Result;
use tower_pulse_core::store::MAX_COUNTER_NAMES;
use tower_pulse_model::context::{Metric, is_reserved};
use tower_pulse_model::order::InOrder;

/// The most names that one command reads, so that no command blocks the server.
const NAMES_AT_ONCE: usize = 1_000;
/// The most pipelines per call, even if many members of `known:` are not names of counters.
const MAX_PIPELINES: usize = MAX_COUNTER_NAMES / NAMES_AT_ONCE;

/// A range of adjacent members of `known:`: the bounds of ZRANGEBYLEX.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    precision: u32,
    min: Vec<u8>,
    max: Vec<u8>,
}

impl Range {
    /// The ranges of members that are counters of the user, at one precision. The counters of contexts, three for each
    /// context, lie between these ranges.
    fn of_user_counters(precision: u32) -> Vec<Self> {
        let mut reserved = Metric::ALL.map(Metric::as_str);
        reserved.order();
        let mut bounds = Vec::new();
        let mut min = format!("[{precision}:");
        for name in reserved {
            let counter = format!("{precision}:{name}");
            // `;` follows `:` in ASCII. A name such as `hits!` lies between `hits` and `hits:`.
            bounds.push((min, format!("({counter}")));
            bounds.push((format!("({counter}"), format!("({counter}:")));
            min = format!("[{counter};");
        }
        bounds.push((min, format!("({precision};")));
        let ranges = bounds.into_iter().map(|(min, max)| Self {
            precision,
            min: min.into_bytes(),
            max: max.into_bytes(),
        });
        ranges.collect()
    }

    fn after(self, member: &[u8]) -> Self {
        let min = [b"(", member].concat();
        Self { min, ..self }
    }

    fn name_of<'a>(&self, member: &'a str) -> Option<&'a str> {
        let name = member.strip_prefix(&format!("{}:", self.precision))?;
        Some(name).filter(|name| !name.is_empty() && !is_reserved(name))
    }
}

impl RedisStore {
    /// The names of the user's counters that `known:` lists at any of the precisions, without names that are not UTF-8.
    pub(crate) async fn read_counter_names(&self, precisions: &[u32]) -> Result<Vec<String>> {
        let known = self.keys.known();
        let mut names = HashSet::new();
        let precisions = precisions.iter().copied();
        let mut unread: Vec<Range> = precisions.flat_map(Range::of_user_counters).collect();
        for _ in 0..MAX_PIPELINES {
            if unread.is_empty() || names.len() >= MAX_COUNTER_NAMES {
                break;
            }
            let mut pipeline = pipe();
            for Range { min, max, .. } in &unread {
                pipeline.zrangebylex_limit(&known, min, max, 0, NAMES_AT_ONCE as isize);
            }
            let replies = self.read_sized(Role::Read, &pipeline).await?;
            let ranges = std::mem::take(&mut unread);
            for (range, reply) in ranges.into_iter().zip(&replies) {
                // A key of another type reads as empty.
                let members = reply.as_ref().map_or(&[][..], items);
                let found = members.iter().filter_map(text);
                let found = found.filter_map(|member| range.name_of(member));
                names.extend(found.map(str::to_owned));
                let last = members.last().and_then(bytes);
                if let Some(last) = last.filter(|_| members.len() >= NAMES_AT_ONCE) {
                    unread.push(range.after(last));
                }
            }
        }
        let mut names: Vec<String> = names.into_iter().collect();
        names.order();
        names.truncate(MAX_COUNTER_NAMES);
        Ok(names)
    }
}
