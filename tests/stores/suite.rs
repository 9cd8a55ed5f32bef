//! What every store does.

use std::sync::Arc;

use tower_pulse::model::batch::Batch;
use tower_pulse::model::context::{ALL, Kind, OVERFLOW};
use tower_pulse::model::histogram::COARSE_SCALE;
use tower_pulse::model::outcome::Outcome;
use tower_pulse::model::slice::HOUR;
use tower_pulse::model::tier::WIDTHS;
use tower_pulse::store::{Appended, Heartbeat};

use crate::bed::{Applied, Fixture, LAST_HOUR, MS, Merged, NOW, THIS_HOUR, call, collected};

pub async fn figures_come_back(bed: &mut Fixture) {
    let mut batch = bed.batch(&[("GET /", Kind::Http, NOW, &[MS, 2 * MS, 6 * MS])]);
    let failed = collected(&[100 * MS], Outcome::ServerError);
    batch.add(&bed.precisions, &"GET /".into(), Kind::Http, NOW, &failed);
    let timer = collected(&[7 * MS], Outcome::Completed);
    batch.add(&bed.precisions, &"db:find".into(), Kind::Timer, NOW, &timer);
    bed.merge_clean(batch).await;
    bed.hit("GET /", NOW + 1, 3 * MS).await;

    let snapshot = bed.snapshot().await;
    assert_eq!(snapshot.problems, []);
    assert_eq!(snapshot.taken_at, NOW);
    let names: Vec<_> = snapshot.contexts.iter().map(|c| &*c.context).collect();
    assert_eq!(names, ["GET /", "db:find"]);
    let root = &snapshot.contexts[0];
    assert_eq!(root, &bed.context("GET /").await);
    assert_eq!((root.kind, &root.last_hour), (Kind::Http, &None));
    assert_eq!(snapshot.contexts[1].kind, Kind::Timer);
    let hour = root.hour.as_ref().unwrap();
    assert_eq!((hour.start, hour.times.count), (THIS_HOUR, 5.0));
    assert!((hour.times.sum - 0.112).abs() < 1e-15);
    assert!((hour.times.sumsq - 0.010_050).abs() < 1e-15);
    assert_eq!(hour.times.smallest(), Some(0.001));
    assert_eq!(hour.times.largest(), Some(0.1));
    assert_eq!(hour.spread.tally.count(Outcome::Success), 4);
    assert_eq!(hour.spread.tally.count(Outcome::ServerError), 1);
    assert_eq!(hour.spread.tally.errors, 1);
    assert!((hour.quantile(0.5).unwrap() / 0.003 - 1.0).abs() < 0.022);
    assert!((hour.quantile(1.0).unwrap() / 0.1 - 1.0).abs() < 0.022);

    let store = &bed.store;
    let counter = |name| async move { store.counter(name, 5).await.unwrap() };
    assert_eq!(counter("hits:GET /").await, [(NOW, 5)]);
    assert_eq!(counter("errors:GET /").await, [(NOW, 1)]);
    assert_eq!(counter("micros:GET /").await, [(NOW, 112_000)]);
    assert_eq!(counter("errors:db:find").await, []);
    let minutes = store
        .records("GET /", 60, bed.clock.now_seconds())
        .await
        .unwrap();
    assert_eq!(minutes.len(), 1);
    assert_eq!((minutes[0].0, minutes[0].1.histogram.count()), (NOW, 5));
    assert_eq!(minutes[0].1.tally.errors, 1);
    assert_eq!(minutes[0].1.times.max, 100 * MS);
}

pub async fn the_all_context_is_apart(bed: &mut Fixture) {
    let batch = bed.batch(&[
        (ALL, Kind::All, NOW, &[MS, MS]),
        (OVERFLOW, Kind::Http, NOW, &[MS]),
        ("GET /", Kind::Http, NOW - 1, &[MS]),
    ]);
    bed.merge_clean(batch).await;
    let snapshot = bed.snapshot().await;
    let names: Vec<_> = snapshot.contexts.iter().map(|c| &*c.context).collect();
    assert_eq!(names, [OVERFLOW, "GET /"]);
    assert_eq!(snapshot.all.hour.unwrap().times.count, 2.0);
    assert_eq!(snapshot.all.kind, Kind::All);
    assert_eq!(snapshot.recent, [(NOW, 2)]);
    assert_eq!(bed.context(ALL).await.kind, Kind::All);
    let slowest = bed.store.slowest().await.unwrap();
    let names: Vec<_> = slowest.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["GET /", OVERFLOW]);
    let micros = bed.store.counter("micros:<all>", 1).await.unwrap();
    assert_eq!(micros, [(NOW, 2_000)]);
    // Recent figures end.
    bed.advance(16);
    assert_eq!(bed.snapshot().await.recent, []);
}

pub async fn calls_are_merged_once(bed: &mut Fixture) {
    let batch = bed.batch(&[("GET /", Kind::Http, NOW, &[MS])]);
    let writer = bed.writer.clone();
    let send = |instance: &'static str, seq, previous| {
        let mut call = call(instance, 1, batch.clone());
        (call.seq, call.previous) = (seq, previous);
        let writer = writer.clone();
        async move { writer.apply(&call).await.unwrap() }
    };
    let merged = Applied::Merged(Merged::default());
    assert_eq!(send("x", 1, 0).await, merged);
    assert_eq!(send("x", 1, 0).await, Applied::Duplicate);
    assert_eq!(send("x", 2, 1).await, merged);
    assert_eq!(send("x", 1, 0).await, Applied::Duplicate);
    assert_eq!(send("x", 5, 4).await, Applied::Gap { fence: 2 });
    // After a gap, what was lost is known to be: the fence is the previous call.
    assert_eq!(send("x", 5, 2).await, merged);
    // Of an instance that it does not know, a store has nothing.
    assert_eq!(send("y", 5, 4).await, Applied::Gap { fence: 0 });
    assert_eq!(send("y", 1, 0).await, merged);
    let hits = bed.store.counter("hits:GET /", 1).await.unwrap();
    assert_eq!(hits, [(NOW, 4)]);
    assert_eq!(bed.hours("GET /").await, (Some(4.0), None));
}

pub async fn a_later_hour_rotates(bed: &mut Fixture) {
    bed.hit("GET /", NOW, MS).await;
    bed.advance(HOUR);
    assert_eq!(bed.hours("GET /").await, (None, Some(1.0)));
    bed.hit("GET /", NOW + HOUR, MS).await;
    bed.hit("GET /", NOW + HOUR, MS).await;
    assert_eq!(bed.hours("GET /").await, (Some(2.0), Some(1.0)));
    // Two hours later the hour before is not the last active one.
    bed.advance(2 * HOUR);
    bed.hit("GET /", NOW + 3 * HOUR, MS).await;
    assert_eq!(bed.hours("GET /").await, (Some(1.0), None));
    bed.advance(9 * HOUR);
    assert_eq!(bed.hours("GET /").await, (None, None));
}

pub async fn the_last_hour_takes_more(bed: &mut Fixture) {
    let batch = bed.batch(&[
        ("GET /", Kind::Http, NOW, &[MS]),
        ("GET /", Kind::Http, LAST_HOUR + 9, &[MS, 3 * MS]),
    ]);
    bed.merge_clean(batch).await;
    assert_eq!(bed.hit("GET /", LAST_HOUR + 99, 8 * MS).await.late, 0);
    assert_eq!(bed.hours("GET /").await, (Some(1.0), Some(3.0)));
    let last = bed.context("GET /").await.last_hour.unwrap();
    assert_eq!(last.start, LAST_HOUR);
    assert!((last.quantile(1.0).unwrap() / 0.008 - 1.0).abs() < 0.09);
    assert_eq!(last.spread.tally.count(Outcome::Success), 3);
}

pub async fn an_hour_between_replaces_the_last(bed: &mut Fixture) {
    bed.hit("GET /", THIS_HOUR - 5 * HOUR, MS).await;
    bed.hit("GET /", NOW, MS).await;
    let merged = bed.hit("GET /", LAST_HOUR, MS).await;
    assert_eq!(merged, Merged::default());
    assert_eq!(bed.hours("GET /").await, (Some(1.0), Some(1.0)));
    // What had been the last is too old now.
    assert_eq!(bed.hit("GET /", THIS_HOUR - 5 * HOUR, MS).await.late, 1);
    // So it goes for one that began in this hour.
    bed.hit("GET /b", NOW, MS).await;
    bed.hit("GET /b", LAST_HOUR, MS).await;
    assert_eq!(bed.hours("GET /b").await, (Some(1.0), Some(1.0)));
}

pub async fn older_hours_are_late(bed: &mut Fixture) {
    bed.hit("GET /", LAST_HOUR, MS).await;
    bed.hit("GET /", NOW, MS).await;
    let old = THIS_HOUR - 2 * HOUR;
    let batch = bed.batch(&[
        ("GET /", Kind::Http, old, &[MS, MS]),
        (ALL, Kind::All, old, &[MS]),
    ]);
    assert_eq!(bed.merge(batch).await.late, 2);
    assert_eq!(bed.hours("GET /").await, (Some(1.0), Some(1.0)));
    // In the counters it is.
    let hours = bed.store.counter("hits:GET /", 3_600).await.unwrap();
    assert_eq!(hours, [(old, 2), (LAST_HOUR, 1), (THIS_HOUR, 1)]);
}

pub async fn hours_of_the_future_are_refused(bed: &mut Fixture) {
    let far = THIS_HOUR + 2 * HOUR;
    let batch = bed.batch(&[
        ("GET /", Kind::Http, far, &[MS, MS]),
        (ALL, Kind::All, far, &[MS, MS]),
    ]);
    let merged = bed.merge(batch).await;
    assert_eq!((merged.skewed, merged.late), (2, 0));
    // Its day is not of the future, so the context is known, with nothing of this hour.
    assert_eq!(bed.hours("GET /").await, (None, None));
    assert_eq!(bed.snapshot().await.contexts.len(), 1);
    assert_eq!(bed.store.counter("hits:GET /", 1).await.unwrap(), []);
    assert_eq!(
        bed.store
            .records("GET /", 60, bed.clock.now_seconds())
            .await
            .unwrap(),
        []
    );
    // The next hour is near enough.
    let batch = bed.batch(&[
        ("GET /", Kind::Http, THIS_HOUR + HOUR, &[MS]),
        ("GET /", Kind::Http, far, &[MS]),
    ]);
    assert_eq!(bed.merge(batch).await.skewed, 1);
    assert_eq!(bed.hit("GET /", NOW, MS).await, Merged::default());
    assert_eq!(bed.hours("GET /").await, (Some(1.0), None));
    bed.advance(HOUR);
    assert_eq!(bed.hours("GET /").await, (Some(1.0), Some(1.0)));
}

/// A batch keeps two hours; where both are of the future, its histograms may still hold the present.
pub async fn histograms_beside_hours_of_the_future(bed: &mut Fixture) {
    let (next, far) = (NOW + 2 * HOUR, NOW + 3 * HOUR);
    let requests = [NOW, next, far].map(|second| ("GET /", Kind::Http, second, &[MS][..]));
    let batch = bed.batch(&requests);
    assert_eq!(bed.merge(batch).await.skewed, 2);
    let histograms = bed
        .store
        .records("GET /", 60, bed.clock.now_seconds())
        .await
        .unwrap();
    let [(slice, spread)] = &histograms[..] else {
        panic!("{histograms:?}");
    };
    assert_eq!((*slice, spread.histogram.count()), (NOW, 1));
    assert_eq!(
        bed.store.counter("hits:GET /", 60).await.unwrap(),
        [(NOW, 1)]
    );
}

pub async fn counters_have_all_precisions(bed: &mut Fixture) {
    for (second, n) in [(NOW, 3), (NOW + 7, -5), (NOW + 4_000, 10)] {
        let mut batch = Batch::default();
        batch.count(&bed.precisions, &"sales".into(), second, n);
        bed.advance(1);
        bed.merge_clean(batch).await;
    }
    for precision in bed.precisions.counters.clone() {
        let samples = bed.store.counter("sales", precision.seconds).await.unwrap();
        let mut expected: Vec<(i64, i64)> = Vec::new();
        for (second, n) in [(NOW, 3), (NOW + 7, -5), (NOW + 4_000, 10)] {
            let slice = precision.slice(second);
            // The one that is over an hour ahead is refused.
            if slice > NOW + HOUR + 3 {
                continue;
            }
            match expected.last_mut() {
                Some((last, sum)) if *last == slice => *sum += n,
                _ => expected.push((slice, n)),
            }
        }
        assert_eq!(samples, expected, "{} s", precision.seconds);
    }
    assert_eq!(bed.snapshot().await.contexts, []);
}

pub async fn new_slices_push_old_ones_out(bed: &mut Fixture) {
    for minute in 0..130 {
        let mut batch = Batch::default();
        for second in [0, 20, 40] {
            let found = collected(&[MS], Outcome::Success);
            let at = NOW + 60 * minute + second;
            batch.add(&bed.precisions, &"GET /".into(), Kind::Http, at, &found);
        }
        bed.merge_clean(batch).await;
        bed.advance(60);
    }
    let end = NOW + 130 * 60;
    let minutes = bed.store.counter("hits:GET /", 60).await.unwrap();
    assert_eq!(minutes.len(), 120);
    assert_eq!(minutes.first(), Some(&(end - 120 * 60, 3)));
    let histograms = bed
        .store
        .records("GET /", 60, bed.clock.now_seconds())
        .await
        .unwrap();
    // Nothing has come in the minute that is open.
    assert_eq!(histograms.len(), 129);
    assert_eq!(histograms[0].0, end - 129 * 60);
    // Gaps do not let records pile up: they go by their age.
    for gap in 0..100 {
        let second = end + gap * 7 * 60;
        bed.hit("GET /", second, MS).await;
        bed.advance(7 * 60);
    }
    let now = bed.clock.now_seconds();
    let records = bed.store.records("GET /", 60, now).await.unwrap();
    let starts: Vec<_> = records.iter().map(|(start, _)| *start).collect();
    let expected: Vec<_> = (0..100).map(|gap| end + gap * 7 * 60).collect();
    assert_eq!(
        starts,
        expected[82..],
        "what began within the last 130 minutes"
    );
}

/// The counts of a context's records in slices of a width.
async fn counts(bed: &Fixture, width: u32) -> Vec<(i64, u64)> {
    let now = bed.clock.now_seconds();
    let records = bed.store.records("GET /", width, now).await.unwrap();
    let records = records.into_iter();
    records
        .map(|(start, sums)| (start, sums.times.count))
        .collect()
}

pub async fn slices_that_have_ended_are_rolled_up(bed: &mut Fixture) {
    let (six_hours, day) = (6 * HOUR, 24 * HOUR);
    let times: Vec<u64> = (1..200).map(|n| n * MS).collect();
    let batch = bed.batch(&[("GET /", Kind::Http, NOW, &times)]);
    bed.merge_clean(batch).await;
    let slice = |width: i64, second: i64| second.div_euclid(width) * width;
    for width in WIDTHS {
        let expected = (slice(width.into(), NOW), 199);
        assert_eq!(counts(bed, width).await, [expected], "{width}");
    }
    bed.advance(HOUR);
    bed.hit("GET /", NOW + HOUR, MS).await;
    // The minute of the first ones has been rolled up, the one of this is pending, and this one is late.
    bed.hit("GET /", NOW, 300 * MS).await;
    let hours = [(slice(HOUR, NOW), 200), (slice(HOUR, NOW + HOUR), 1)];
    assert_eq!(
        counts(bed, 60).await,
        [(slice(60, NOW), 200), (slice(60, NOW + HOUR), 1)]
    );
    assert_eq!(counts(bed, 3_600).await, hours);
    assert_eq!(
        counts(bed, 86_400)
            .await
            .iter()
            .map(|(_, n)| n)
            .sum::<u64>(),
        201
    );
    let now = bed.clock.now_seconds();
    let hours = bed.store.records("GET /", 3_600, now).await.unwrap();
    let widest = bed.store.records("GET /", 21_600, now).await.unwrap();
    assert_eq!(hours[0].1.histogram.scale(), 4);
    assert_eq!(widest[0].1.histogram.scale(), COARSE_SCALE);
    assert_eq!(hours[0].1.tally.count(Outcome::Success), 200);
    for (records, error) in [(&hours, 0.022), (&widest, 0.09)] {
        let median = records[0].1.histogram.quantile(0.5).unwrap();
        assert!((median / 0.1 - 1.0).abs() < error, "{median}");
    }
    // Minutes that are not retained any more are in the half hours, and these in the six hours.
    bed.advance(HOUR + 1_800);
    bed.hit("GET /", NOW, MS).await;
    assert_eq!(counts(bed, 60).await, [(slice(60, NOW + HOUR), 1)]);
    assert_eq!(counts(bed, 3_600).await[0], (slice(HOUR, NOW), 201));
    bed.advance(3 * day);
    bed.hit("GET /", NOW, MS).await;
    assert_eq!(counts(bed, 3_600).await, []);
    let widest: u64 = counts(bed, 21_600).await.iter().map(|(_, n)| n).sum();
    assert_eq!(widest, 203);
    bed.advance(12 * day + six_hours);
    bed.hit("GET /", NOW + 15 * day, MS).await;
    assert_eq!(counts(bed, 21_600).await.len(), 1);
}

pub async fn contexts_that_are_not_rolled_up_yet_are_read_too(bed: &mut Fixture) {
    const CONTEXTS: usize = 100;
    let names: Vec<String> = (0..CONTEXTS).map(|n| format!("GET /{n}")).collect();
    let mut batch = Batch::default();
    for name in &names {
        let part = bed.batch(&[(name, Kind::Http, NOW, &[MS])]);
        batch.merge(part, &bed.precisions);
    }
    bed.merge_clean(batch).await;
    for (minutes, hits) in [(2, 1), (3, 2), (40, 3), (41, 4)] {
        // One context at a time: the others are rolled up a part at a time, or read where they are.
        bed.advance(minutes * 60 - (bed.clock.now_seconds() - NOW));
        bed.hit("GET /7", NOW + minutes * 60, MS).await;
        let now = bed.clock.now_seconds();
        for name in &names {
            let expected = if name == "GET /7" { 1 + hits } else { 1 };
            for width in WIDTHS {
                let records = bed.store.records(name, width, now).await.unwrap();
                let count: u64 = records.iter().map(|(_, sums)| sums.times.count).sum();
                assert_eq!(count, expected, "{name} at {width} after {minutes} minutes");
            }
        }
    }
}

pub async fn the_slowest_hundred_are_ranked(bed: &mut Fixture) {
    let mut batch = Batch::default();
    for n in 0..130u64 {
        let name: Arc<str> = format!("GET /{n:03}").into();
        let found = collected(&[(n + 1) * MS, (n + 1) * 3 * MS], Outcome::Success);
        batch.add(&bed.precisions, &name, Kind::Http, NOW, &found);
    }
    let timer = collected(&[9_000 * MS], Outcome::Completed);
    batch.add(&bed.precisions, &"render".into(), Kind::Timer, NOW, &timer);
    let all = collected(&[90_000 * MS], Outcome::Completed);
    batch.add(&bed.precisions, &ALL.into(), Kind::All, NOW, &all);
    bed.merge_clean(batch).await;
    let slowest = bed.store.slowest().await.unwrap();
    assert_eq!(slowest.len(), 100);
    assert_eq!(slowest[0], ("render".to_owned(), 9.0));
    assert_eq!(slowest[1], ("GET /129".to_owned(), (0.13 + 0.39) / 2.0));
    assert_eq!(slowest[99].0, "GET /031");
    // A mean that falls falls in the ranking; the mean is sum / count, to the last bit.
    bed.hit("GET /129", NOW, 77_777).await;
    let times = bed.context("GET /129").await.hour.unwrap().times;
    let slowest = bed.store.slowest().await.unwrap();
    let ranked = slowest.iter().find(|(name, _)| name == "GET /129");
    assert_eq!(ranked.unwrap().1, times.sum / times.count);
    // The last hour's requests do not move it.
    bed.hit("GET /129", LAST_HOUR, 9_000 * MS).await;
    assert_eq!(bed.store.slowest().await.unwrap(), slowest);
}

/// Beyond what is shown: the ranking of a fleet whose contexts change must not grow.
pub async fn the_ranking_holds_a_hundred(bed: &mut Fixture) {
    for n in 0..3 {
        let names: Vec<_> = (0..70).map(|i| format!("GET /{n}/{i}")).collect();
        let requests = names.iter().zip(1..).map(|(name, i)| {
            let nanos = [(70 * n + i) * MS];
            (&**name, nanos)
        });
        let requests: Vec<_> = requests.collect();
        let requests = requests.iter();
        let requests: Vec<_> = requests
            .map(|(name, nanos)| (*name, Kind::Http, NOW, &nanos[..]))
            .collect();
        bed.merge_clean(bed.batch(&requests)).await;
        if let Some(server) = &bed.server {
            let mut size = redis::cmd("ZCARD");
            size.arg("pulse:slowest:AccessTime");
            let size: u64 = size
                .query_async(&mut server.connection().await)
                .await
                .unwrap();
            assert_eq!(size, 100.min(70 * (n + 1)));
        }
    }
    let slowest = bed.store.slowest().await.unwrap();
    assert_eq!(slowest[0], ("GET /2/69".to_owned(), 0.21));
    assert_eq!(slowest[99], ("GET /1/40".to_owned(), 0.111));
    // A day later none of them was visited: all that are ranked go.
    bed.advance(24 * HOUR + 60);
    let cleaned = bed.store.clean(&bed.pass()).await.unwrap().unwrap();
    assert_eq!((cleaned.ranks, cleaned.contexts), (100, 0));
    assert_eq!(bed.store.slowest().await.unwrap(), []);
}

pub async fn sums_do_not_wrap(bed: &mut Fixture) {
    let mut batch = Batch::default();
    batch.count(&bed.precisions, &"big".into(), NOW, i64::MAX - 1);
    bed.merge_clean(batch).await;
    let mut batch = bed.batch(&[("GET /", Kind::Http, NOW, &[MS])]);
    batch.count(&bed.precisions, &"big".into(), NOW, 2);
    batch.count(&bed.precisions, &"small".into(), NOW, 2);
    let merged = bed.merge(batch).await;
    assert_eq!(merged.quarantined.len(), 7, "{merged:?}");
    let keys = merged.quarantined.iter().map(|p| &*p.key);
    assert!(keys.clone().all(|key| key.ends_with(":big")), "{merged:?}");
    assert!(keys.clone().any(|key| key.ends_with("count:1:big")));
    assert!(merged.quarantined[0].reason.contains("overflow"));
    let big = bed.store.counter("big", 60).await.unwrap();
    assert_eq!(big, [(NOW, i64::MAX - 1)]);
    assert_eq!(bed.store.counter("small", 60).await.unwrap(), [(NOW, 2)]);
    assert_eq!(bed.hours("GET /").await, (Some(1.0), None));
    let mut batch = Batch::default();
    batch.count(&bed.precisions, &"big".into(), NOW, 1);
    bed.merge_clean(batch).await;
    assert_eq!(
        bed.store.counter("big", 1).await.unwrap(),
        [(NOW, i64::MAX)]
    );
}

pub async fn instances_live_for_a_minute(bed: &mut Fixture) {
    for (instance, in_flight, at) in [("a", 3, NOW - 30), ("b", 4, NOW), ("c", 5, NOW)] {
        let heartbeat = Heartbeat {
            instance: instance.into(),
            at,
            in_flight,
            dropped: 0,
        };
        bed.store.heartbeat(&heartbeat).await.unwrap();
    }
    bed.store.deregister("c").await.unwrap();
    bed.store.deregister("nobody").await.unwrap();
    let snapshot = bed.snapshot().await;
    assert_eq!((snapshot.instances, snapshot.in_flight), (2, 7));
    bed.advance(31);
    let snapshot = bed.snapshot().await;
    assert_eq!((snapshot.instances, snapshot.in_flight), (1, 4));
    let cleaned = bed.store.clean(&bed.pass()).await.unwrap().unwrap();
    assert_eq!(cleaned.instances, 1);
}

pub async fn instances_that_write_at_once_are_exact(bed: &mut Fixture) {
    let generation = bed.store.hello().await.unwrap().id;
    let mut writers = Vec::new();
    for writer in 0..4u64 {
        let (store, precisions) = (bed.store.clone(), bed.precisions.clone());
        let (folder, generation) = (bed.writer.folder.clone(), generation.clone());
        writers.push(tokio::spawn(async move {
            let instance = format!("writer-{writer}");
            for seq in 1..=50 {
                let mut batch = Batch::default();
                let second = NOW + seq as i64 % 7;
                let one = collected(&[(writer + 1) * MS, seq * MS], Outcome::Success);
                batch.add(&precisions, &"GET /".into(), Kind::Http, second, &one);
                batch.count(&precisions, &"sales".into(), second, 1);
                let mut call = call(&instance, seq, batch);
                call.generation.clone_from(&generation);
                let appended = store.append(&call).await.unwrap();
                assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
                let appended = store.append(&call).await.unwrap();
                assert!(matches!(appended, Appended::Duplicate(_)), "{appended:?}");
                if seq % 5 == writer {
                    assert!(folder.fold().await.unwrap());
                }
            }
            assert!(folder.fold().await.unwrap());
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let hour = bed.context("GET /").await.hour.unwrap();
    assert_eq!(hour.times.count, 400.0);
    // 50 * (1 + 2 + 3 + 4) + 4 * (1 + … + 50) milliseconds
    assert!((hour.times.sum - 5.6).abs() < 1e-12);
    assert_eq!(hour.spread.histogram.count(), 400);
    assert_eq!(hour.spread.tally.count(Outcome::Success), 400);
    for (name, sum) in [("hits:GET /", 400), ("sales", 200)] {
        let samples = bed.store.counter(name, 1).await.unwrap();
        assert_eq!(samples.iter().map(|(_, n)| n).sum::<i64>(), sum);
    }
}

pub async fn cleaning_keeps_the_newest_samples(bed: &mut Fixture) {
    // With gaps, which no slice pushes out.
    for minute in [0, 1, 5, 40] {
        bed.hit("GET /", NOW + 60 * minute, MS).await;
    }
    let ahead = NOW + 40 * 60;
    bed.hand.set_wall(ahead + 30);
    let cleaned = bed.store.clean(&bed.pass()).await.unwrap().unwrap();
    assert_eq!(cleaned.problems, []);
    let hits = bed.store.counter("hits:GET /", 1).await.unwrap();
    assert_eq!(hits, [(ahead, 1)], "120 s are kept, and the future");
    assert_eq!(bed.store.counter("hits:GET /", 60).await.unwrap().len(), 4);
    // Hits and micros at 1 s and 5 s lose three slices, but NOW + 300 s is within 600 s of … none.
    assert_eq!(cleaned.slices, 12);
    assert_eq!(cleaned.counters, 0);
    // Nothing stays of a counter that is idle.
    bed.hand.set_wall(ahead + 10_000);
    let cleaned = bed.store.clean(&bed.pass()).await.unwrap().unwrap();
    assert_eq!(bed.store.counter("hits:GET /", 60).await.unwrap(), []);
    assert!(cleaned.counters >= 6, "{cleaned:?}");
}

pub async fn cleaning_keeps_the_rhythm(bed: &mut Fixture) {
    bed.hit("GET /", NOW, MS).await;
    let mut passes = [0u64; 60];
    for examined in &mut passes {
        let pass = bed.pass();
        let cleaned = bed.store.clean(&pass).await.unwrap().unwrap();
        *examined = cleaned.examined;
        let due = bed.precisions.counters.iter();
        let due = due.filter(|p| pass.examines(p.seconds.into())).count();
        // A counter that has become empty is not examined again.
        assert!(*examined <= 2 * due as u64);
        bed.advance(60);
    }
    assert!(passes.contains(&6) && passes.iter().any(|n| *n >= 8));
    // The hits of an hour of 5 h slices are there still.
    assert_eq!(
        bed.store.counter("hits:GET /", 18_000).await.unwrap().len(),
        1
    );
}

pub async fn cleaning_forgets_contexts(bed: &mut Fixture) {
    let day = 24 * HOUR;
    let batch = bed.batch(&[
        ("GET /old", Kind::Http, NOW, &[MS]),
        ("timer", Kind::Timer, NOW, &[MS]),
        (ALL, Kind::All, NOW, &[MS]),
    ]);
    bed.merge_clean(batch).await;
    bed.advance(day + 60);
    bed.hit("GET /new", NOW + day, MS).await;
    let cleaned = bed.store.clean(&bed.pass()).await.unwrap().unwrap();
    assert_eq!((cleaned.ranks, cleaned.contexts), (2, 0));
    let slowest = bed.store.slowest().await.unwrap();
    assert_eq!(slowest.len(), 1);
    assert_eq!(bed.snapshot().await.contexts.len(), 3);

    bed.advance(6 * day);
    let cleaned = bed.store.clean(&bed.pass()).await.unwrap().unwrap();
    assert_eq!((cleaned.ranks, cleaned.contexts), (1, 2));
    let contexts = bed.snapshot().await.contexts;
    let names: Vec<_> = contexts.iter().map(|c| &*c.context).collect();
    assert_eq!(names, ["GET /new"]);
    let now = bed.clock.now_seconds();
    assert_eq!(bed.store.context("timer", now).await.unwrap(), None);
    assert_eq!(bed.store.records("timer", 3_600, now).await.unwrap(), []);
    assert_eq!(bed.store.counter("hits:timer", 86_400).await.unwrap(), []);
    assert!(bed.store.context(ALL, now).await.unwrap().is_some());
}

pub async fn a_pass_is_done_once(bed: &mut Fixture) {
    bed.hit("GET /", NOW, MS).await;
    assert_eq!(bed.store.last_pass().await.unwrap(), None);
    bed.hand.set_wall(NOW + 7_200);
    let pass = bed.pass();
    let cleaned = bed.store.clean(&pass).await.unwrap().unwrap();
    assert!(cleaned.slices > 0);
    let last = bed.store.last_pass().await.unwrap().unwrap();
    assert_eq!((last.number, last.at), (pass.number(), pass.now));
    assert_eq!((&*last.instance, last.cleaned), ("a", cleaned));
    let mut other = pass.clone();
    other.instance = "b".into();
    assert_eq!(bed.store.clean(&other).await.unwrap(), None);
    other.now -= 60;
    assert_eq!(bed.store.clean(&other).await.unwrap(), None);
    other.now += 120;
    assert!(bed.store.clean(&other).await.unwrap().is_some());
    // A clock that was days ahead does not keep the others from cleaning.
    other.now += 10 * 86_400;
    assert!(bed.store.clean(&other).await.unwrap().is_some());
    other.now -= 9 * 86_400;
    assert!(bed.store.clean(&other).await.unwrap().is_some());
}

pub async fn nothing_is_known_of_nothing(bed: &mut Fixture) {
    let snapshot = bed.snapshot().await;
    assert_eq!(snapshot.contexts, []);
    assert_eq!((snapshot.all.hour, snapshot.all.last_hour), (None, None));
    assert_eq!((snapshot.instances, snapshot.recent), (0, vec![]));
    assert_eq!(bed.store.context("GET /", NOW).await.unwrap(), None);
    assert_eq!(bed.store.counter("hits", 1).await.unwrap(), []);
    assert_eq!(
        bed.store
            .records("GET /", 60, bed.clock.now_seconds())
            .await
            .unwrap(),
        []
    );
    assert_eq!(bed.store.slowest().await.unwrap(), []);
    let cleaned = bed.store.clean(&bed.pass()).await.unwrap().unwrap();
    assert_eq!(cleaned, Default::default());
    bed.merge_clean(Batch::default()).await;
    assert!(!bed.store.describe().is_empty());
    assert_eq!(bed.store.warnings(), Vec::<String>::new());
}
