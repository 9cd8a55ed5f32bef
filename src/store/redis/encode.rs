//! A [`Call`] as the keys and arguments of `merge.lua`, whose head describes them.

use std::collections::BTreeMap;

use super::keys::Keys;
use super::packed;
use super::script::Invocation;
use crate::model::access_time::AccessTime;
use crate::model::context::Metric;
use crate::model::slice::{HOUR, Precision, Precisions, iso_hour};
use crate::model::slowest;
use crate::store::Call;

/// Seconds for which a fence is kept after the last call.
pub(super) const FENCE_FOR: i64 = 86_400;

/// What the encoding depends on beside the call.
pub(super) struct Layout<'a> {
    pub(super) keys: &'a Keys,
    pub(super) precisions: &'a Precisions,
    pub(super) key_ttl: bool,
    /// The server's time, where it is not to be asked for it.
    pub(super) now: Option<i64>,
}

/// Keys and what is added to them, by slice: what a slice makes necessary is then done once and not
/// once per key. Precisions are given by their position.
type Groups<V> = BTreeMap<(usize, i64), Vec<(String, V)>>;

pub(super) fn merge(call: &Call, layout: &Layout<'_>) -> Invocation {
    let keys = layout.keys;
    let batch = &call.batch;
    let counters = counters(call, layout);
    let histograms = histograms(call, layout);

    let mut script = Invocation::default();
    script.key(keys.fence(&call.instance));
    script.key(keys.known());
    script.key(keys.slowest());
    script.key(keys.contexts());
    script.key(keys.timers());
    script.arg(call.seq.to_string());
    script.arg(call.previous.to_string());
    script.arg(FENCE_FOR.to_string());
    script.arg(layout.now.map_or_else(String::new, |now| now.to_string()));
    script.arg(keys.count_prefix().len().to_string());
    script.arg(slowest::KEPT.to_string());
    script.arg(counters.len().to_string());
    script.arg(batch.contexts.len().to_string());
    script.arg(histograms.len().to_string());

    for ((at, slice), group) in counters {
        let precision = layout.precisions.counters[at];
        script.arg(slice.to_string());
        script.arg(precision.span().to_string());
        script.arg(layout.ttl(precision));
        script.arg(group.len().to_string());
        for (key, n) in group {
            script.key(key);
            script.arg(n);
        }
    }
    for (name, delta) in &batch.contexts {
        let stats = keys.stats(name);
        script.key(stats.current);
        script.key(stats.start);
        script.key(stats.last);
        script.key(stats.pstart);
        script.arg(delta.kind.name());
        script.arg(&**name);
        script.arg(delta.last_seen.to_string());
        script.arg(delta.hours.len().to_string());
        for (hour, times) in delta.hours.iter() {
            let times = AccessTime::from(times);
            script.arg(hour.to_string());
            script.arg(iso_hour(hour));
            for value in [times.count, times.sum, times.sumsq, times.min, times.max] {
                // The shortest text that reads back as the same number.
                script.arg(format!("{value:?}"));
            }
        }
    }
    for ((at, slice), group) in histograms {
        let precision = layout.precisions.histograms[at];
        script.arg(slice.to_string());
        script.arg(precision.span().to_string());
        script.arg(precision.samples.to_string());
        script.arg(layout.ttl(precision));
        script.arg(if is_hour(precision) { "1" } else { "" });
        script.arg(group.len().to_string());
        for (key, packed) in group {
            script.key(key);
            script.arg(packed);
        }
    }
    script
}

impl Layout<'_> {
    fn ttl(&self, precision: Precision) -> String {
        if self.key_ttl {
            precision.key_ttl().to_string()
        } else {
            String::new()
        }
    }
}

fn counters(call: &Call, layout: &Layout<'_>) -> Groups<String> {
    let mut groups = Groups::new();
    let mut add = |at: usize, slice: i64, name: &str, n: String| {
        let key = layout
            .keys
            .count(layout.precisions.counters[at].seconds, name);
        groups.entry((at, slice)).or_default().push((key, n));
    };
    let known = layout.precisions.counters.len();
    for (context, delta) in &call.batch.contexts {
        let names = Metric::ALL.map(|metric| metric.counter(context));
        for (at, slices) in delta.counters.iter().enumerate().take(known) {
            for (slice, hits) in slices.iter() {
                add(at, slice, &names[0], hits.hits.to_string());
                if hits.errors > 0 {
                    add(at, slice, &names[1], hits.errors.to_string());
                }
                // Requests that took no microsecond together add nothing, not even a slice.
                if hits.micros > 0 {
                    add(at, slice, &names[2], hits.micros.to_string());
                }
            }
        }
    }
    for (name, delta) in &call.batch.counters {
        for (at, slices) in delta.iter().enumerate().take(known) {
            for (slice, n) in slices.iter() {
                add(at, slice, name, n.to_string());
            }
        }
    }
    groups
}

fn histograms(call: &Call, layout: &Layout<'_>) -> Groups<Vec<u8>> {
    let mut groups = Groups::new();
    for (context, delta) in &call.batch.contexts {
        let precisions = layout.precisions.histograms.iter();
        for (at, (slices, precision)) in delta.histograms.iter().zip(precisions).enumerate() {
            if slices.is_empty() {
                continue;
            }
            let key = layout.keys.histogram(precision.seconds, context);
            for (slice, spread) in slices.iter() {
                let packed = packed::encode(spread, is_hour(*precision));
                let group: &mut Vec<_> = groups.entry((at, slice)).or_default();
                group.push((key.clone(), packed));
            }
        }
    }
    groups
}

fn is_hour(precision: Precision) -> bool {
    i64::from(precision.seconds) == HOUR
}
