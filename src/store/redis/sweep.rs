//! How a pass goes through the counters.
//!
//! `known:` is read page by page, and past precisions that are not due. Of each counter that is due
//! one looks at its length and its time to live first, which takes a fraction of the time that it
//! takes to list its slices. A counter that is being written is in order at a glance: each new slice
//! of it pushes an old one out. It is looked through every sixteenth time all the same, as gaps
//! leave slices that nothing pushes out; every other one, each time it is due.

use redis::{Value, cmd, pipe};

use super::clean::{Interrupted, PassRun};
use super::connection::Role;
use super::script::CLEAN;
use super::value::{bytes, int, items, shown, text};
use crate::model::context::fnv1a;
use crate::model::slice::{DEFAULT_SAMPLES, Precision};

/// Members of `known:` per page.
const PAGE: usize = 250;
/// Slices that are listed at once, or dropped by one call of the script: below a millisecond of the
/// server's time.
const LISTED_AT_ONCE: usize = 4_000;
const DROPPED_AT_ONCE: usize = 400;
/// What a counter costs beside its slices.
const PER_COUNTER: usize = 8;
/// Hashes longer than this are listed in parts.
const LONG: usize = 2_000;
/// Hashes no longer than this are looked through each time: it costs next to nothing.
const SHORT: usize = 16;
/// A counter that seems to be in order is looked through every so many times.
pub(super) const LOOKED_THROUGH_EVERY: u64 = 16;

/// A counter that is due.
struct Due<'m> {
    member: &'m [u8],
    precision: Precision,
    /// Its slices and whatever else there is in its hash.
    len: usize,
    /// The time to live that it is to be given.
    ttl: Option<i64>,
}

/// What is to be done to a counter.
struct Task<'m> {
    member: &'m [u8],
    ttl: Option<i64>,
    drop: Vec<Vec<u8>>,
}

impl PassRun<'_> {
    /// Goes through `known:`. The pages begin after the last member seen, so that members that come
    /// or go meanwhile shift nothing; that needs all scores to be 0, as they are unless somebody
    /// else writes them.
    pub(super) async fn counters(&mut self) -> Result<(), Interrupted> {
        let known = self.store.keys.known();
        let mut pipeline = pipe();
        pipeline.cmd("ZCOUNT").arg(&known).arg("-inf").arg("(0");
        pipeline.cmd("ZCOUNT").arg(&known).arg("(0").arg("+inf");
        let connections = &self.store.connections;
        let counts = connections.pipeline(Role::Write, &mut pipeline).await?;
        let mut in_order = true;
        for count in counts {
            match count {
                Ok(count) => in_order &= count == Value::Int(0),
                Err(reason) => {
                    let reason = format!("{reason}; no counter can be cleaned");
                    self.problem(known.as_bytes(), &reason);
                    return Ok(());
                }
            }
        }
        let (mut from, mut index) = (b"-".to_vec(), 0);
        loop {
            let mut page = cmd(if in_order { "ZRANGEBYLEX" } else { "ZRANGE" });
            page.arg(&known);
            if in_order {
                page.arg(&from).arg("+").arg("LIMIT").arg(0).arg(PAGE);
            } else {
                page.arg(index).arg(index + PAGE as i64 - 1);
            }
            let Some(page) = self.of_key(&known, &page).await? else {
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
                    // Past all others of this precision.
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

    /// How many samples are kept of a precision that another configuration may have made.
    fn precision(&self, seconds: u32) -> Precision {
        let known = self.store.precisions.counter(seconds);
        known.unwrap_or(Precision::new(seconds, DEFAULT_SAMPLES))
    }

    /// Cleans counters that are due.
    async fn clean(&mut self, due: &[(&[u8], Precision)]) -> Result<(), Interrupted> {
        let mut tasks = Vec::new();
        let suspects = self.suspects(due, &mut tasks).await?;
        let mut rest = &suspects[..];
        while let Some(first) = rest.first() {
            let mut cost = 0;
            let fits = rest.iter().take_while(|counter| {
                cost += counter.len + PER_COUNTER;
                counter.len <= LONG && cost <= LISTED_AT_ONCE
            });
            let (some, others) = rest.split_at(fits.count());
            if some.is_empty() {
                self.look_through_long(first).await?;
                rest = &rest[1..];
            } else {
                self.look_through(some, &mut tasks).await?;
                rest = others;
            }
        }
        self.execute(tasks).await
    }

    /// A glance at each counter. Returns those that are to be looked through.
    async fn suspects<'m>(
        &mut self,
        due: &[(&'m [u8], Precision)],
        tasks: &mut Vec<Task<'m>>,
    ) -> Result<Vec<Due<'m>>, Interrupted> {
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
            let counter = Due {
                member,
                precision: *precision,
                len: len.unwrap_or(0),
                ttl: ttl.and_then(|left| prolonged(*precision, left)),
            };
            if counter.len == 0 {
                tasks.push(Task {
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

    /// Whether a counter is to be looked through, `left` being the seconds until it expires.
    fn is_suspect(&self, counter: &Due<'_>, left: Option<i64>) -> bool {
        let Precision { seconds, samples } = counter.precision;
        let seconds = i64::from(seconds);
        let idle = counter.precision.key_ttl() - left.unwrap_or(-1);
        self.thorough
            || counter.len <= SHORT
            || counter.len > samples as usize
            || idle > 2 * seconds + 10
            // Those that are examined rarely are cheap enough.
            || seconds / self.pass.interval.max(1) > 1
            || (fnv1a(counter.member) ^ self.pass.number() as u64).is_multiple_of(LOOKED_THROUGH_EVERY)
    }

    /// Lists the slices of some counters, and notes what is to be done to them.
    async fn look_through<'m>(
        &mut self,
        counters: &[Due<'m>],
        tasks: &mut Vec<Task<'m>>,
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
                // It has changed its type since.
                continue;
            };
            let mut seen = Seen::default();
            let cut_off = counter.precision.cut_off(self.pass.now);
            items(&fields)
                .iter()
                .for_each(|field| seen.note(field, cut_off));
            self.conclude(counter, seen, tasks);
        }
        Ok(())
    }

    /// The same for one whose hash is long, in parts.
    async fn look_through_long(&mut self, counter: &Due<'_>) -> Result<(), Interrupted> {
        let key = self.store.keys.count_of(counter.member);
        let cut_off = counter.precision.cut_off(self.pass.now);
        let (mut seen, mut cursor) = (Seen::default(), b"0".to_vec());
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
                seen.note(field, cut_off);
            }
            if cursor == b"0" {
                break;
            }
            let drop = std::mem::take(&mut seen.old);
            let member = counter.member;
            let some = Task {
                member,
                ttl: None,
                drop,
            };
            self.execute(vec![some]).await?;
        }
        // A field may be listed twice.
        seen.live.sort_unstable();
        seen.live.dedup();
        let mut tasks = Vec::new();
        self.conclude(counter, seen, &mut tasks);
        self.execute(tasks).await
    }

    fn conclude<'m>(&mut self, counter: &Due<'m>, mut seen: Seen, tasks: &mut Vec<Task<'m>>) {
        let surplus = seen
            .live
            .len()
            .saturating_sub(counter.precision.samples as usize);
        if surplus > 0 {
            seen.live.sort_unstable();
            let oldest = seen.live.drain(..surplus);
            seen.old.extend(oldest.map(|(_, field)| field));
        }
        if seen.strange > 0 {
            let key = self.store.keys.count_of(counter.member);
            let reason = format!("{} fields are no slice", seen.strange);
            self.problem(&key, &reason);
        }
        let ttl = counter.ttl.filter(|_| !seen.live.is_empty());
        if !seen.old.is_empty() || ttl.is_some() {
            tasks.push(Task {
                member: counter.member,
                ttl,
                drop: seen.old,
            });
        }
    }

    async fn execute(&mut self, tasks: Vec<Task<'_>>) -> Result<(), Interrupted> {
        let (mut script, mut cost) = (None, 0);
        for task in &tasks {
            let mut parts: Vec<_> = task.drop.chunks(DROPPED_AT_ONCE).collect();
            if parts.is_empty() {
                parts.push(&[]);
            }
            for part in parts {
                if cost > 0 && cost + part.len() + PER_COUNTER > DROPPED_AT_ONCE {
                    self.send(script.take()).await?;
                    cost = 0;
                }
                cost += part.len() + PER_COUNTER;
                let script = script.get_or_insert_with(|| {
                    let mut script = self.script();
                    script.key(self.store.keys.known());
                    script
                });
                script.key(self.store.keys.count_of(task.member));
                script.arg(task.member);
                script.arg(task.ttl.map_or_else(String::new, |ttl| ttl.to_string()));
                script.arg(part.len().to_string());
                part.iter().for_each(|field| script.arg(field.as_slice()));
            }
        }
        self.send(script).await
    }

    async fn send(&mut self, script: Option<super::script::Invocation>) -> Result<(), Interrupted> {
        let Some(script) = script else {
            return Ok(());
        };
        let reply = self.run(&CLEAN, &script).await?;
        let count = |at: usize| items(&reply).get(at).and_then(int).unwrap_or(0).max(0) as u64;
        self.cleaned.slices += count(1);
        self.cleaned.counters += count(2);
        Ok(())
    }
}

/// The fields of a counter's hash.
#[derive(Default)]
struct Seen {
    old: Vec<Vec<u8>>,
    live: Vec<(i64, Vec<u8>)>,
    strange: usize,
}

impl Seen {
    fn note(&mut self, field: &Value, cut_off: i64) {
        match text(field).and_then(slice_of) {
            Some((start, field)) if start <= cut_off => self.old.push(field.into()),
            Some((start, field)) => self.live.push((start, field.into())),
            None => self.strange += 1,
        }
    }
}

/// The slice that a field stands for.
fn slice_of(field: &str) -> Option<(i64, &str)> {
    let start = field.parse().ok().filter(|_| !field.starts_with('+'))?;
    Some((start, field))
}

/// The time to live that a counter is to be given which has samples and `left` seconds to go:
/// nothing while there is enough.
fn prolonged(precision: Precision, left: i64) -> Option<i64> {
    let margin = precision.key_ttl() - precision.span();
    (left < precision.span() + margin / 2).then_some(precision.key_ttl())
}

/// The precision that a member of `known:` begins with, as a number and as it is written, or why
/// it is none.
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
    fn members_of_known() {
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
    fn slices_in_hashes() {
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
