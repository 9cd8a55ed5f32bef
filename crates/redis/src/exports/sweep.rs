//! Cleaning of the counters.
//!
//! A pass reads `known:` page by page, and skips precisions that are not due. For each counter that is due it
//! first reads the length and the time to live, which takes a fraction of the time of listing the slices. These
//! two show that a counter that is being written is in order, as each new slice pushes an old one out. The
//! slices of such a counter are listed every sixteenth time only, to remove slices that nothing pushed out
//! because no sample came for a while. The slices of all other counters are listed each time they are due.

use redis::{Value, cmd, pipe};

use super::pass::{PassRun, count};
use crate::connection::Role;
use crate::script::{CLEAN, Invocation};
use crate::value::{bytes, int, items, shown, text};
use tower_pulse_core::store::interrupted::Interrupted;
use tower_pulse_model::context::fnv1a;
use tower_pulse_model::slice::{DEFAULT_RETAINED, Precision};

/// Members of `known:` per page.
const PAGE: usize = 250;
/// The most slices that are listed at once, and that one call of the script drops. Both take less than a
/// millisecond of the server's time.
const LISTED_AT_ONCE: usize = 4_000;
const DROPPED_AT_ONCE: usize = 400;
/// The cost of a counter beside its slices, in slices.
const PER_COUNTER: usize = 8;
/// Hashes longer than this are listed in parts.
const LONG: usize = 2_000;
/// The slices of hashes no longer than this are listed each time, which costs next to nothing.
const SHORT: usize = 16;
/// The slices of a counter that seems to be in order are listed once in this many times.
pub(super) const FULL_CHECK_EVERY: u64 = 16;

/// A counter that is due.
struct DueCounter<'m> {
    member: &'m [u8],
    precision: Precision,
    /// The number of fields in its hash.
    len: usize,
    /// The time to live to set, if any.
    ttl: Option<i64>,
}

/// The change of a counter: the slices to drop, and the time to live to set.
struct Change<'m> {
    member: &'m [u8],
    ttl: Option<i64>,
    drop: Vec<Vec<u8>>,
}

impl PassRun<'_> {
    /// Cleans all counters of `known:` that are due. Each page begins after the last member of the previous one,
    /// so that members that are added or removed meanwhile do not shift the pages. This requires all scores to
    /// be 0, as they are unless another program has written them.
    pub(super) async fn counters(&mut self) -> Result<(), Interrupted> {
        let known_key = self.store.keys.known();
        let mut pipeline = pipe();
        pipeline.cmd("ZCOUNT").arg(&known_key).arg("-inf").arg("(0");
        pipeline.cmd("ZCOUNT").arg(&known_key).arg("(0").arg("+inf");
        let connections = &self.store.connections;
        let counts = connections.pipeline(Role::Write, &mut pipeline).await?;
        let mut in_order = true;
        for count in counts {
            match count {
                Ok(count) => in_order &= count == Value::Int(0),
                Err(reason) => {
                    let reason =
                        format!("{reason}; no counter can be cleaned until the key is deleted");
                    self.problem(known_key.as_bytes(), &reason);
                    return Ok(());
                }
            }
        }
        let (mut from, mut index) = (b"-".to_vec(), 0);
        loop {
            let mut page = cmd(if in_order { "ZRANGEBYLEX" } else { "ZRANGE" });
            page.arg(&known_key);
            if in_order {
                page.arg(&from).arg("+").arg("LIMIT").arg(0).arg(PAGE);
            } else {
                page.arg(index).arg(index + PAGE as i64 - 1);
            }
            let Some(page) = self.query_key(&known_key, &page).await? else {
                return Ok(());
            };
            let members: Vec<&[u8]> = items(&page).iter().filter_map(bytes).collect();
            let Some(last) = members.last() else {
                return Ok(());
            };
            from = [b"(", *last].concat();
            let mut due = Vec::with_capacity(members.len());
            for member in &members {
                match precision_of(member) {
                    Ok((seconds, _)) if self.pass.examines(i64::from(seconds)) => {
                        due.push((*member, self.precision(seconds)));
                    }
                    // Skips all other members of this precision.
                    Ok((_, digits)) if in_order => {
                        from = [b"[", digits, b";"].concat();
                        break;
                    }
                    Ok(_) => {}
                    Err(reason) => {
                        let key = self.store.keys.known();
                        let reason = format!("member `{}` {reason}", shown(member));
                        self.problem(key.as_bytes(), &reason);
                    }
                }
            }
            let before = self.cleaned.counters;
            self.clean(&due).await?;
            index += members.len() as i64 - (self.cleaned.counters - before) as i64;
            self.keep_lease().await?;
        }
    }

    /// A precision with its retention. Another configuration may have written a precision that this one lacks.
    fn precision(&self, seconds: u32) -> Precision {
        let configured = self.store.precisions.counter(seconds);
        configured.unwrap_or(Precision::new(seconds, DEFAULT_RETAINED))
    }

    /// Cleans counters that are due.
    async fn clean(&mut self, due: &[(&[u8], Precision)]) -> Result<(), Interrupted> {
        let mut changes = Vec::new();
        let suspects = self.suspects(due, &mut changes).await?;
        let mut remaining = &suspects[..];
        while let Some(first) = remaining.first() {
            let mut cost = 0;
            let fitting = remaining.iter().take_while(|counter| {
                cost += counter.len + PER_COUNTER;
                counter.len <= LONG && cost <= LISTED_AT_ONCE
            });
            let (group, others) = remaining.split_at(fitting.count());
            if group.is_empty() {
                self.list_long(first).await?;
                remaining = &remaining[1..];
            } else {
                self.list(group, &mut changes).await?;
                remaining = others;
            }
        }
        self.execute(changes).await
    }

    /// Reads the length and the time to live of each counter. Returns the counters whose slices are to be listed.
    async fn suspects<'m>(
        &mut self,
        due: &[(&'m [u8], Precision)],
        changes: &mut Vec<Change<'m>>,
    ) -> Result<Vec<DueCounter<'m>>, Interrupted> {
        let mut pipeline = pipe();
        for (member, _) in due {
            let key = self.store.keys.count_of(member);
            pipeline.cmd("HLEN").arg(&key);
            if self.store.expire_idle_keys {
                pipeline.cmd("TTL").arg(&key);
            }
        }
        let connections = &self.store.connections;
        let replies = connections.pipeline(Role::Write, &mut pipeline).await?;
        let mut suspects = Vec::new();
        let each = if self.store.expire_idle_keys { 2 } else { 1 };
        for ((member, precision), replies) in due.iter().zip(replies.chunks_exact(each)) {
            self.cleaned.examined += 1;
            let len = match &replies[0] {
                Ok(len) => int(len).and_then(|len| usize::try_from(len).ok()),
                Err(reason) => {
                    let key = self.store.keys.count_of(member);
                    self.problem(&key, reason);
                    continue;
                }
            };
            let ttl = replies.get(1).and_then(|ttl| ttl.as_ref().ok());
            let ttl = ttl.and_then(int);
            let counter = DueCounter {
                member,
                precision: *precision,
                len: len.unwrap_or(0),
                ttl: ttl.and_then(|left| prolonged(*precision, left)),
            };
            if counter.len == 0 {
                changes.push(Change {
                    member,
                    ttl: None,
                    drop: Vec::new(),
                });
            } else if self.is_suspect(&counter, ttl) {
                suspects.push(counter);
            }
        }
        Ok(suspects)
    }

    /// Whether the slices of a counter are to be listed. `left` is the number of seconds until it expires.
    fn is_suspect(&self, counter: &DueCounter<'_>, left: Option<i64>) -> bool {
        let Precision {
            seconds, retained, ..
        } = counter.precision;
        let seconds = i64::from(seconds);
        let idle = counter.precision.key_ttl() - left.unwrap_or(-1);
        self.thorough
            || counter.len <= SHORT
            || counter.len > retained as usize
            || idle > 2 * seconds + 10
            // Coarse precisions are examined rarely, so that listing them is cheap.
            || seconds / self.pass.interval.max(1) > 1
            || (fnv1a(counter.member.iter().copied()) ^ self.pass.number() as u64).is_multiple_of(FULL_CHECK_EVERY)
    }

    /// Lists the slices of some counters, and adds the changes to be made.
    async fn list<'m>(
        &mut self,
        counters: &[DueCounter<'m>],
        changes: &mut Vec<Change<'m>>,
    ) -> Result<(), Interrupted> {
        let mut pipeline = pipe();
        for counter in counters {
            let key = self.store.keys.count_of(counter.member);
            pipeline.cmd("HKEYS").arg(key);
        }
        let connections = &self.store.connections;
        let replies = connections.pipeline(Role::Write, &mut pipeline).await?;
        for (counter, fields) in counters.iter().zip(replies) {
            let Ok(fields) = fields else {
                // The key has changed its type since.
                continue;
            };
            let mut seen = SliceFields::default();
            let cut_off = counter.precision.cut_off(self.pass.now);
            items(&fields)
                .iter()
                .for_each(|field| seen.add(field, cut_off));
            self.conclude(counter, seen, changes);
        }
        Ok(())
    }

    /// Lists the slices of one counter with a long hash in parts, and executes the changes.
    async fn list_long(&mut self, counter: &DueCounter<'_>) -> Result<(), Interrupted> {
        let key = self.store.keys.count_of(counter.member);
        let cut_off = counter.precision.cut_off(self.pass.now);
        let (mut seen, mut cursor) = (SliceFields::default(), b"0".to_vec());
        loop {
            let mut scan = pipe();
            let command = scan.cmd("HSCAN").arg(&key).arg(&cursor);
            command.arg("COUNT").arg(DROPPED_AT_ONCE);
            let connections = &self.store.connections;
            let reply = connections.pipeline(Role::Write, &mut scan).await?;
            let Some(Ok(reply)) = reply.first() else {
                return Ok(());
            };
            let [next, fields] = items(reply) else {
                return Ok(());
            };
            cursor = bytes(next).unwrap_or(b"0").to_vec();
            for field in items(fields).iter().step_by(2) {
                seen.add(field, cut_off);
            }
            if cursor == b"0" {
                break;
            }
            let drop = std::mem::take(&mut seen.old);
            let member = counter.member;
            let change = Change {
                member,
                ttl: None,
                drop,
            };
            self.execute(vec![change]).await?;
        }
        // A field may be listed twice.
        seen.live.sort_unstable();
        seen.live.dedup();
        let mut changes = Vec::new();
        self.conclude(counter, seen, &mut changes);
        self.execute(changes).await
    }

    fn conclude<'m>(
        &mut self,
        counter: &DueCounter<'m>,
        mut seen: SliceFields,
        changes: &mut Vec<Change<'m>>,
    ) {
        let surplus = seen
            .live
            .len()
            .saturating_sub(counter.precision.retained as usize);
        if surplus > 0 {
            seen.live.sort_unstable();
            let oldest = seen.live.drain(..surplus);
            seen.old.extend(oldest.map(|(_, field)| field));
        }
        if seen.foreign > 0 {
            let key = self.store.keys.count_of(counter.member);
            let reason = format!(
                "{} fields are not slices; remove them with HDEL",
                seen.foreign
            );
            self.problem(&key, &reason);
        }
        let ttl = counter.ttl.filter(|_| !seen.live.is_empty());
        if !seen.old.is_empty() || ttl.is_some() {
            changes.push(Change {
                member: counter.member,
                ttl,
                drop: seen.old,
            });
        }
    }

    async fn execute(&mut self, changes: Vec<Change<'_>>) -> Result<(), Interrupted> {
        let (mut script, mut cost) = (None, 0);
        for change in &changes {
            let mut parts: Vec<_> = change.drop.chunks(DROPPED_AT_ONCE).collect();
            if parts.is_empty() {
                parts.push(&[]);
            }
            for part in parts {
                if cost > 0 && cost + part.len() + PER_COUNTER > DROPPED_AT_ONCE {
                    self.send(script.take()).await?;
                    cost = 0;
                }
                cost += part.len() + PER_COUNTER;
                let script = script.get_or_insert_with(|| self.script([self.store.keys.known()]));
                script.key(self.store.keys.count_of(change.member));
                script.arg(change.member);
                script.arg(change.ttl.map_or_else(String::new, |ttl| ttl.to_string()));
                script.arg(part.len().to_string());
                part.iter().for_each(|field| script.arg(field.as_slice()));
            }
        }
        self.send(script).await
    }

    async fn send(&mut self, script: Option<Invocation>) -> Result<(), Interrupted> {
        let Some(script) = script else {
            return Ok(());
        };
        let reply = self.run(&CLEAN, &script).await?;
        self.cleaned.slices += count(&reply, 1);
        self.cleaned.counters += count(&reply, 2);
        Ok(())
    }
}

/// The fields of a counter's hash: slices to drop, slices to keep, and the number of fields that are not slices.
#[derive(Default)]
struct SliceFields {
    old: Vec<Vec<u8>>,
    live: Vec<(i64, Vec<u8>)>,
    foreign: usize,
}

impl SliceFields {
    fn add(&mut self, field: &Value, cut_off: i64) {
        match text(field).and_then(slice_of) {
            Some((start, field)) if start <= cut_off => self.old.push(field.into()),
            Some((start, field)) => self.live.push((start, field.into())),
            None => self.foreign += 1,
        }
    }
}

/// The start of the slice that a field names, and the field.
fn slice_of(field: &str) -> Option<(i64, &str)> {
    let start = field.parse().ok().filter(|_| !field.starts_with('+'))?;
    Some((start, field))
}

/// The time to live to set for a counter with slices that expires in `left` seconds; `None` while that is long
/// enough.
fn prolonged(precision: Precision, left: i64) -> Option<i64> {
    let margin = precision.key_ttl() - precision.span();
    (left < precision.span() + margin / 2).then_some(precision.key_ttl())
}

/// The precision with which a member of `known:` begins, as a number and as its digits. The error says why the
/// member has none.
fn precision_of(member: &[u8]) -> Result<(u32, &[u8]), &'static str> {
    let text = std::str::from_utf8(member).map_err(|_| "is not UTF-8; remove it with ZREM")?;
    let (digits, _) = text
        .split_once(':')
        .ok_or("is not {precision}:{name}; remove it with ZREM")?;
    match digits.parse() {
        Ok(0) | Err(_) => Err("does not begin with a precision in seconds; remove it with ZREM"),
        Ok(seconds) => Ok((seconds, digits.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_known_begins_with_a_precision() {
        assert_eq!(precision_of(b"5:hits:GET /"), Ok((5, &b"5"[..])));
        for garbage in [
            &b"garbage"[..],
            b"0:zero",
            b"\xff:x",
            b"-5:x",
            b"99999999999:x",
            b":x",
            b"",
        ] {
            assert!(precision_of(garbage).is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn a_slice_is_a_decimal_number_without_a_plus_sign() {
        assert_eq!(slice_of("-60").map(|(start, _)| start), Some(-60));
        for garbage in ["", "+5", "5.0", "1e3", "0x5", " 5", "99999999999999999999"] {
            assert_eq!(slice_of(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn a_time_to_live_is_renewed_when_half_of_its_margin_is_over() {
        let minutes = Precision::new(60, 120);
        assert_eq!(prolonged(minutes, -1), Some(7_800));
        assert_eq!(prolonged(minutes, 7_499), Some(7_800));
        assert_eq!(prolonged(minutes, 7_500), None);
    }
}
