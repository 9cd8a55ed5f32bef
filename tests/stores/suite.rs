//! The suite of tests that every store passes.

pub use crate::stores::changes::{
    a_full_log_is_read_in_pages, a_judgement_from_outdated_data_is_not_written,
    a_judgement_that_is_not_finished_does_not_count, of_two_judgements_at_once_one_is_written,
    the_newest_marks_are_retained,
};
pub use crate::stores::windows::a_window_is_compared_with_any_other;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use tower_pulse_core::store::{Appended, Heartbeat, Precisions};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, ContextId, Kind, OVERFLOW, RecordId};
use tower_pulse_model::measures::Measure;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::{HOUR, latest_accepted};
use tower_pulse_model::snapshot::{AliveInstance, PathInFlight};
use tower_pulse_model::tier::FINEST;

use crate::rig::reads::{self, StoreReads, pairs_of};
use crate::rig::server::issue;
use crate::stores::fixture::{
    Fixture, LAST_HOUR, MS, MergeReport, NOW, THIS_HOUR, aggregate_of, call,
};

pub async fn a_batch_is_read_back_as_it_was_written(fixture: &mut Fixture) {
    let mut batch = fixture.batch(&[("GET /", Kind::Http, NOW, &[MS, 2 * MS, 6 * MS])]);
    let failed = aggregate_of(&[100 * MS], Outcome::ServerError);
    batch.add(&"GET /".into(), Kind::Http, NOW, &failed);
    let timer = aggregate_of(&[7 * MS], Outcome::Completed);
    batch.add(&"db:find".into(), Kind::Timer, NOW, &timer);
    fixture.merge_whole(batch).await;
    fixture.hit("GET /", NOW + 1, 3 * MS).await;

    let snapshot = fixture.snapshot().await;
    assert_eq!(snapshot.problems, []);
    assert_eq!(snapshot.fleet.taken_at, NOW);
    let names: Vec<_> = snapshot.contexts.iter().map(|c| &*c.context).collect();
    assert_eq!(names, ["GET /", "db:find"]);
    let root = &snapshot.contexts[0];
    assert_eq!(root, &fixture.context("GET /").await);
    assert_eq!((root.kind, &root.last_hour), (Kind::Http, &None));
    assert_eq!(snapshot.contexts[1].kind, Kind::Timer);
    let hour = root.hour.as_ref().unwrap();
    assert_eq!((hour.start, hour.times.count), (THIS_HOUR, 5.0));
    assert!((hour.times.sum - 0.112).abs() < 1e-15);
    assert!((hour.times.sumsq - 0.010_050).abs() < 1e-15);
    assert_eq!(hour.times.smallest(), Some(0.001));
    assert_eq!(hour.times.largest(), Some(0.1));
    assert_eq!(hour.aggregate.outcomes.count(Outcome::Success), 4);
    assert_eq!(hour.aggregate.outcomes.count(Outcome::ServerError), 1);
    assert_eq!(hour.aggregate.outcomes.errors, 1);
    assert_eq!(hour.aggregate.codes.largest(), [(&200, 4), (&503, 1)]);
    assert_eq!(hour.aggregate.kinds.get("db_timeout"), 1);
    assert!((hour.aggregate.histogram.quantile(0.5).unwrap() / 0.003 - 1.0).abs() < 0.022);
    assert!((hour.aggregate.histogram.quantile(1.0).unwrap() / 0.1 - 1.0).abs() < 0.022);

    assert_eq!(fixture.counter("hits:GET /", 5).await, [(NOW, 5)]);
    assert_eq!(fixture.counter("errors:GET /", 5).await, [(NOW, 1)]);
    assert_eq!(fixture.counter("micros:GET /", 5).await, [(NOW, 112_000)]);
    assert_eq!(fixture.counter("errors:db:find", 5).await, []);
    let minutes = fixture.records("GET /", 60).await;
    assert_eq!(minutes.len(), 1);
    assert_eq!((minutes[0].0, minutes[0].1.histogram.count()), (NOW, 5));
    assert_eq!(minutes[0].1.outcomes.errors, 1);
    assert_eq!(minutes[0].1.times.max, 100 * MS);
}

pub async fn the_all_context_is_in_no_list_and_no_ranking(fixture: &mut Fixture) {
    let batch = fixture.batch(&[
        (ALL, Kind::All, NOW, &[MS, MS]),
        (OVERFLOW, Kind::Http, NOW, &[MS]),
        ("GET /", Kind::Http, NOW - 1, &[MS]),
    ]);
    fixture.merge_whole(batch).await;
    let snapshot = fixture.snapshot().await;
    let names: Vec<_> = snapshot.contexts.iter().map(|c| &*c.context).collect();
    assert_eq!(names, [OVERFLOW, "GET /"]);
    assert_eq!(snapshot.all.hour.unwrap().times.count, 2.0);
    assert_eq!(snapshot.all.kind, Kind::All);
    assert_eq!(pairs_of(&snapshot.fleet.recent), [(NOW, 2)]);
    assert_eq!(fixture.context(ALL).await.kind, Kind::All);
    let slowest = fixture.slowest_means().await;
    let names: Vec<_> = slowest.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["GET /", OVERFLOW]);
    let micros = fixture.counter("micros:<all>", 1).await;
    assert_eq!(micros, [(NOW, 2_000)]);
    // Only the last 26 slices are recent.
    fixture.advance(26);
    assert_eq!(fixture.snapshot().await.fleet.recent, []);
}

pub async fn instances_that_write_at_once_lose_no_sample(fixture: &mut Fixture) {
    let generation = fixture.store.hello().await.unwrap().id;
    let write = |writer: u64| {
        let (store, folder) = (fixture.store.clone(), fixture.writer.folder.clone());
        let generation = generation.clone();
        let mut batch = fixture.batch(&[("GET /", Kind::Http, NOW, &[MS, (writer + 1) * MS])]);
        batch.count(&"sales".into(), NOW, 1);
        tokio::spawn(async move {
            for seq in 1..=50 {
                let mut call = call(&format!("writer-{writer}"), seq, batch.clone());
                call.generation.clone_from(&generation);
                let appended = store.append(&call).await.unwrap();
                assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
                let appended = store.append(&call).await.unwrap();
                assert!(matches!(appended, Appended::Duplicate(_)), "{appended:?}");
                if seq % 5 == writer {
                    assert!(folder.fold().await.unwrap());
                }
            }
        })
    };
    let written = futures_util::future::join_all((0..4).map(write)).await;
    written.into_iter().for_each(Result::unwrap);
    assert!(fixture.writer.folder.fold().await.unwrap());
    let hour = fixture.context("GET /").await.hour.unwrap();
    assert_eq!(
        (hour.times.count, hour.aggregate.histogram.count()),
        (400.0, 400)
    );
    // 200 times 1 ms, and 50 times the 1, 2, 3 and 4 ms of the writers.
    assert!((hour.times.sum - 0.7).abs() < 1e-12);
    assert_eq!(fixture.counter("hits:GET /", 1).await, [(NOW, 400)]);
    assert_eq!(fixture.counter("sales", 1).await, [(NOW, 200)]);
}

pub async fn a_later_hour_makes_the_current_hour_the_last(fixture: &mut Fixture) {
    fixture.hit("GET /", NOW, MS).await;
    fixture.advance(HOUR);
    assert_eq!(fixture.hours("GET /").await, (None, Some(1.0)));
    fixture.hit("GET /", NOW + HOUR, MS).await;
    fixture.hit("GET /", NOW + HOUR, MS).await;
    assert_eq!(fixture.hours("GET /").await, (Some(2.0), Some(1.0)));
    // One call may have samples of both hours.
    let batch = fixture.batch(&[
        ("GET /", Kind::Http, NOW + HOUR, &[MS]),
        ("GET /", Kind::Http, NOW, &[3 * MS, 8 * MS]),
    ]);
    fixture.merge_whole(batch).await;
    assert_eq!(fixture.hours("GET /").await, (Some(3.0), Some(3.0)));
    let last = fixture.context("GET /").await.last_hour.unwrap();
    assert_eq!(last.start, THIS_HOUR);
    assert!((last.aggregate.histogram.quantile(1.0).unwrap() / 0.008 - 1.0).abs() < 0.09);
    assert_eq!(last.aggregate.outcomes.count(Outcome::Success), 3);
    // At NOW + 3 h, the stored statistics are not shown, because they are of NOW + 1 h, not of the previous hour.
    fixture.advance(2 * HOUR);
    fixture.hit("GET /", NOW + 3 * HOUR, MS).await;
    assert_eq!(fixture.hours("GET /").await, (Some(1.0), None));
    fixture.advance(9 * HOUR);
    assert_eq!(fixture.hours("GET /").await, (None, None));
}

pub async fn a_new_hour_replaces_the_last_hour_and_older_hours_are_late(fixture: &mut Fixture) {
    fixture.hit("GET /", THIS_HOUR - 5 * HOUR, MS).await;
    fixture.hit("GET /", NOW, MS).await;
    let merged = fixture.hit("GET /", LAST_HOUR, MS).await;
    assert_eq!(merged, MergeReport::default());
    assert_eq!(fixture.hours("GET /").await, (Some(1.0), Some(1.0)));
    // The hour of the first sample is now too old.
    let merged = fixture.hit("GET /", THIS_HOUR - 5 * HOUR, MS).await;
    assert_eq!(merged.late, fixture.late(1));
    // A context that began in this hour also has a last hour, and its older samples are late.
    fixture.hit("GET /b", NOW, MS).await;
    fixture.hit("GET /b", LAST_HOUR, MS).await;
    assert_eq!(fixture.hours("GET /b").await, (Some(1.0), Some(1.0)));
    let old = THIS_HOUR - 2 * HOUR;
    let batch = fixture.batch(&[
        ("GET /b", Kind::Http, old, &[MS, MS]),
        (ALL, Kind::All, old, &[MS]),
    ]);
    assert_eq!(fixture.merge(batch).await.late, fixture.late(2));
    assert_eq!(fixture.hours("GET /b").await, (Some(1.0), Some(1.0)));
    // Late samples count in the counters.
    let hours = fixture.counter("hits:GET /b", 3_600).await;
    assert_eq!(hours, [(old, 2), (LAST_HOUR, 1), (THIS_HOUR, 1)]);
}

pub async fn samples_more_than_an_hour_ahead_are_skewed(fixture: &mut Fixture) {
    let far = THIS_HOUR + 2 * HOUR;
    let batch = fixture.batch(&[
        ("GET /", Kind::Http, far, &[MS, MS]),
        (ALL, Kind::All, far, &[MS, MS]),
    ]);
    let merged = fixture.merge(batch).await;
    assert_eq!((merged.skewed, merged.late), (2, 0));
    // Each tier counts the samples as missing, in its slice at the time of the refusal.
    let missing = async |fixture: &Fixture, width| {
        let records = fixture.records(ALL, width).await;
        let of = |(start, sums): (i64, Aggregate)| (start, sums.measures.get(Measure::Missing));
        records.into_iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(missing(fixture, 60).await, [(NOW, 2)]);
    assert_eq!(missing(fixture, 1_800).await, [(NOW, 2)]);
    // The slice of a day begins in the past and is accepted, so the context exists, without samples of this hour.
    assert_eq!(fixture.hours("GET /").await, (None, None));
    assert_eq!(fixture.snapshot().await.contexts.len(), 1);
    assert_eq!(fixture.counter("hits:GET /", 1).await, []);
    assert_eq!(fixture.records("GET /", 60).await, []);
    // Samples of the next hour are accepted, because clocks may differ by an hour.
    let batch = fixture.batch(&[
        ("GET /", Kind::Http, THIS_HOUR + HOUR, &[MS]),
        ("GET /", Kind::Http, far, &[MS]),
    ]);
    assert_eq!(fixture.merge(batch).await.skewed, 1);
    assert_eq!(fixture.hit("GET /", NOW, MS).await, MergeReport::default());
    assert_eq!(fixture.hours("GET /").await, (Some(1.0), None));
    fixture.advance(HOUR);
    assert_eq!(fixture.hours("GET /").await, (Some(1.0), Some(1.0)));
    // By now the minute is rolled up.
    fixture.hit("GET /", NOW + HOUR, MS).await;
    assert_eq!(missing(fixture, 1_800).await[0], (NOW, 2));
    // A batch keeps the statistics of two hours, here of two hours in the future. Its records still have the sample of
    // the present.
    let now = NOW + HOUR;
    let seconds = [now, now + 2 * HOUR, now + 3 * HOUR];
    let requests = seconds.map(|second| ("GET /b", Kind::Http, second, &[MS][..]));
    assert_eq!(fixture.merge(fixture.batch(&requests)).await.skewed, 2);
    let records = fixture.records("GET /b", 60).await;
    let counts: Vec<_> = records
        .iter()
        .map(|(at, sums)| (*at, sums.histogram.count()))
        .collect();
    assert_eq!(counts, [(now, 1)]);
    assert_eq!(fixture.counter("hits:GET /b", 60).await, [(now, 1)]);
}

pub async fn a_page_and_a_timer_of_one_name_are_two_contexts(fixture: &mut Fixture) {
    let mut batch = fixture.batch(&[("both", Kind::Http, NOW, &[MS, 3 * MS])]);
    let timer = aggregate_of(&[7 * MS], Outcome::Failed);
    batch.add(&"both".into(), Kind::Timer, NOW, &timer);
    fixture.merge_whole(batch).await;
    let now = fixture.now();
    let contexts = fixture.store.query().contexts("both", now).await.unwrap();
    assert_eq!(fixture.snapshot().await.contexts, contexts);
    let hours = contexts.iter().map(|context| {
        let hour = context.hour.as_ref().unwrap();
        let errors = hour.aggregate.outcomes.errors;
        let max = (hour.times.max * 1e3).round();
        (context.kind, hour.times.count, max, errors)
    });
    let hours: Vec<_> = hours.collect();
    let expected = [(Kind::Timer, 1.0, 7.0, 1), (Kind::Http, 2.0, 3.0, 0)];
    assert_eq!(hours, expected);
    for (kind, count) in [(Kind::Timer, 1), (Kind::Http, 2)] {
        let context = [ContextId::new(kind, "both")];
        let records = fixture.store.records_of_tier(&context, (60, FINEST), now);
        let records = records.await.unwrap();
        assert_eq!((records.len(), records[0].1.times.count), (1, count));
    }
    // The book's keys have one name for both kinds.
    let hits = fixture.counter("hits:both", 60).await;
    assert_eq!(hits, [(NOW, 3)]);
}

pub async fn a_batch_of_other_precisions_is_refused(fixture: &mut Fixture) {
    let mut batch = Batch::new(Precisions::new([7], 120));
    batch.count(&"sales".into(), NOW, 1);
    let error = fixture.writer.apply(&call("other", 1, batch)).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("7 s x 120"), "{error}");
    assert!(error.contains("precisions"), "{error}");
    // The instance uses the same call number again.
    let mut batch = fixture.batch(&[]);
    batch.count(&"sales".into(), NOW, 1);
    let applied = fixture.writer.apply(&call("other", 1, batch)).await;
    assert_eq!(applied.unwrap(), MergeReport::default());
    assert_eq!(fixture.counter("sales", 7).await, []);
}

pub async fn counters_are_stored_at_all_precisions(fixture: &mut Fixture) {
    for (second, n) in [(NOW, 3), (NOW + 7, -5), (NOW + 4_000, 10)] {
        fixture.advance(1);
        fixture.count(second, &[("sales", n)]).await;
    }
    for precision in fixture.precisions.counters.clone() {
        let slices = fixture.counter("sales", precision.seconds).await;
        let [first, second, third] = [NOW, NOW + 7, NOW + 4_000].map(|at| precision.slice(at));
        let mut expected = BTreeMap::from([(first, 3)]);
        *expected.entry(second).or_default() -= 5;
        // Slices in hours that begin more than an hour ahead are refused.
        if third <= latest_accepted(NOW + 3) {
            *expected.entry(third).or_default() += 10;
        }
        assert!(expected.into_iter().eq(slices), "{} s", precision.seconds);
    }
    assert_eq!(fixture.snapshot().await.contexts, []);
}

pub async fn new_slices_push_old_ones_out(fixture: &mut Fixture) {
    for minute in 0..130 {
        let seconds = [0, 20, 40].map(|second| NOW + 60 * minute + second);
        let requests = seconds.map(|second| ("GET /", Kind::Http, second, &[MS][..]));
        fixture.merge_whole(fixture.batch(&requests)).await;
        fixture.advance(60);
    }
    let end = NOW + 130 * 60;
    let minutes = fixture.counter("hits:GET /", 60).await;
    assert_eq!(minutes.len(), 120);
    assert_eq!(minutes.first(), Some(&(end - 120 * 60, 3)));
    let records = fixture.records("GET /", 60).await;
    // The current minute has no samples.
    assert_eq!((records.len(), records[0].0), (129, end - 129 * 60));
}

pub async fn the_slowest_hundred_are_ranked(fixture: &mut Fixture) {
    let mut batch = fixture.batch(&[]);
    for n in 0..130u64 {
        let name: Arc<str> = format!("GET /{n:03}").into();
        let aggregate = aggregate_of(&[(n + 1) * MS, (n + 1) * 3 * MS], Outcome::Success);
        batch.add(&name, Kind::Http, NOW, &aggregate);
        // The contexts come in two calls.
        if n == 64 {
            let first_call = mem::replace(&mut batch, fixture.batch(&[]));
            fixture.merge_whole(first_call).await;
            assert_eq!(fixture.slowest_means().await.len(), 65);
        }
    }
    let timer = aggregate_of(&[9_000 * MS], Outcome::Completed);
    batch.add(&"render".into(), Kind::Timer, NOW, &timer);
    let all = aggregate_of(&[90_000 * MS], Outcome::Completed);
    batch.add(&ALL.into(), Kind::All, NOW, &all);
    fixture.merge_whole(batch).await;
    let slowest = fixture.slowest_means().await;
    assert_eq!(slowest.len(), 100);
    assert_eq!(slowest[0], ("render".to_owned(), 9.0));
    assert_eq!(slowest[1], ("GET /129".to_owned(), (0.13 + 0.39) / 2.0));
    assert_eq!(slowest[99].0, "GET /031");
    // A context whose mean falls also falls in the ranking. The mean is sum / count, to the last bit.
    fixture.hit("GET /129", NOW, 77_777).await;
    let times = fixture.context("GET /129").await.hour.unwrap().times;
    let slowest = fixture.slowest_means().await;
    let ranked = slowest.iter().find(|(name, _)| name == "GET /129");
    assert_eq!(ranked.unwrap().1, times.sum / times.count);
    // Samples of the last hour do not change the ranking.
    fixture.hit("GET /129", LAST_HOUR, 9_000 * MS).await;
    assert_eq!(fixture.slowest_means().await, slowest);
    // The ranking in Redis also has only a hundred contexts.
    if let Some(keys) = &fixture.keys {
        let key = keys.key("slowest:AccessTime");
        let size: u64 = issue(&mut keys.connection().await, "ZCARD", key).await;
        assert_eq!(size, 100);
    }
    // After a day without samples, all contexts leave the ranking.
    fixture.advance(24 * HOUR + 60);
    assert_eq!(fixture.clean().await.contexts, 0);
    assert_eq!(fixture.slowest_means().await, []);
}

pub async fn a_sum_that_would_overflow_is_quarantined(fixture: &mut Fixture) {
    fixture.count(NOW, &[("big", i64::MAX - 1)]).await;
    let mut batch = fixture.batch(&[("GET /", Kind::Http, NOW, &[MS])]);
    batch.count(&"big".into(), NOW, 2);
    batch.count(&"small".into(), NOW, 2);
    let merged = fixture.merge(batch).await;
    assert_eq!(merged.quarantined.len(), 7, "{merged:?}");
    let keys = merged.quarantined.iter().map(|p| &*p.key);
    assert!(keys.clone().all(|key| key.ends_with(":big")), "{merged:?}");
    assert!(keys.clone().any(|key| key.ends_with("count:1:big")));
    assert!(merged.quarantined[0].reason.contains("overflow"));
    let big = fixture.counter("big", 60).await;
    assert_eq!(big, [(NOW, i64::MAX - 1)]);
    assert_eq!(fixture.counter("small", 60).await, [(NOW, 2)]);
    assert_eq!(fixture.hours("GET /").await, (Some(1.0), None));
    let report = fixture.count(NOW, &[("big", 1)]).await;
    assert_eq!(report, MergeReport::default());
    assert_eq!(fixture.counter("big", 1).await, [(NOW, i64::MAX)]);
}

pub async fn instances_are_alive_for_a_minute_after_a_heartbeat(fixture: &mut Fixture) {
    let path = |in_flight: i64| PathInFlight {
        path: RecordId::new(Kind::Http, "GET /"),
        in_flight: in_flight.unsigned_abs(),
        seconds: 240,
        hangs: in_flight == 4,
    };
    for (instance, in_flight, at) in [("a", 3, NOW - 30), ("b", 4, NOW), ("c", 5, NOW)] {
        let heartbeat = Heartbeat {
            name: (instance != "c").then(|| "web".into()),
            in_flight,
            paths: vec![path(in_flight)],
            version: Some(format!("1.{in_flight}").into()),
            ..reads::heartbeat(instance, at)
        };
        fixture.store.upkeep().heartbeat(&heartbeat).await.unwrap();
    }
    fixture.store.upkeep().deregister("c").await.unwrap();
    fixture.store.upkeep().deregister("unknown").await.unwrap();
    let fleet = fixture.snapshot().await.fleet;
    assert_eq!((fleet.instances, fleet.in_flight), (2, 7));
    // Instances of the same name are shown as one.
    let alive = AliveInstance {
        instance: "web".into(),
        last_seen: NOW,
        version: Some("1.4".into()),
        in_flight: Some(7),
        paths: vec![path(4), path(3)],
        skew: None,
        cleaning: None,
    };
    assert_eq!(fleet.alive, [alive]);
    fixture.advance(31);
    for _ in 0..2 {
        let fleet = fixture.snapshot().await.fleet;
        assert_eq!((fleet.instances, fleet.in_flight), (1, 4));
        fixture.clean().await;
    }
}

pub async fn cleaning_keeps_the_slices_within_their_retention(fixture: &mut Fixture) {
    // Gaps leave slices that no new slice pushes out.
    for minute in [0, 1, 5, 40] {
        fixture.hit("GET /", NOW + 60 * minute, MS).await;
    }
    let ahead = NOW + 40 * 60;
    fixture.manual_clock.set_wall(ahead + 30);
    let cleaned = fixture.clean().await;
    assert_eq!(cleaned.skipped, None);
    let hits = fixture.counter("hits:GET /", 1).await;
    // Slices of the last 120 s and of the future stay.
    assert_eq!(hits, [(ahead, 1)]);
    assert_eq!(fixture.counter("hits:GET /", 60).await.len(), 4);
    // Hits and micros lose three slices each at 1 s, which retains 120 s, and at 5 s, which retains 600 s.
    assert_eq!(cleaned.slices, 12);
    assert_eq!(cleaned.counters, 0);
    // An idle counter is removed completely.
    fixture.manual_clock.set_wall(ahead + 10_000);
    let cleaned = fixture.clean().await;
    assert_eq!(fixture.counter("hits:GET /", 60).await, []);
    assert!(cleaned.counters >= 6, "{cleaned:?}");
}

pub async fn cleaning_examines_a_precision_only_when_it_is_due(fixture: &mut Fixture) {
    fixture.hit("GET /", NOW, MS).await;
    let mut passes = [0u64; 60];
    for examined in &mut passes {
        *examined = fixture.clean().await.examined;
        let (pass, due) = (fixture.pass(), fixture.precisions.counters.iter());
        let due = due.filter(|p| pass.examines(p.seconds.into())).count();
        // A counter that has become empty is not examined again.
        assert!(*examined <= 2 * due as u64);
        fixture.advance(60);
    }
    assert!(passes.contains(&6) && passes.iter().any(|n| *n >= 8));
    // The hits in slices of 5 h are retained.
    assert_eq!(fixture.counter("hits:GET /", 18_000).await.len(), 1);
}

pub async fn cleaning_forgets_contexts_without_recent_samples(fixture: &mut Fixture) {
    let day = 24 * HOUR;
    let batch = fixture.batch(&[
        ("GET /old", Kind::Http, NOW, &[MS]),
        ("timer", Kind::Timer, NOW, &[MS]),
        (ALL, Kind::All, NOW, &[MS]),
    ]);
    fixture.merge_whole(batch).await;
    fixture.advance(day + 60);
    fixture.hit("GET /new", NOW + day, MS).await;
    // A later call with an older sample does not make the context idle.
    fixture.hit("GET /new", NOW - 8 * day, MS).await;
    let cleaned = fixture.clean().await;
    assert_eq!(cleaned.contexts, 0);
    let slowest = fixture.slowest_means().await;
    assert_eq!(slowest.len(), 1);
    assert_eq!(fixture.snapshot().await.contexts.len(), 3);

    fixture.advance(6 * day);
    let cleaned = fixture.clean().await;
    assert_eq!(cleaned.contexts, 2);
    let contexts = fixture.snapshot().await.contexts;
    let names: Vec<_> = contexts.iter().map(|c| &*c.context).collect();
    assert_eq!(names, ["GET /new"]);
    let now = fixture.now();
    assert_eq!(fixture.store.context("timer", now).await.unwrap(), None);
    assert_eq!(fixture.records("timer", 3_600).await, []);
    assert_eq!(fixture.counter("hits:timer", 86_400).await, []);
    assert!(fixture.store.context(ALL, now).await.unwrap().is_some());
    if let Some(keys) = &fixture.keys {
        let mut redis = keys.connection().await;
        let left: Vec<String> = issue(&mut redis, "KEYS", keys.key("*:timer*")).await;
        assert_eq!(left, [""; 0]);
        let known = (keys.key("known:"), 0, -1);
        let known: Vec<String> = issue(&mut redis, "ZRANGE", known).await;
        assert!(!known.iter().any(|name| name.ends_with(":timer")));
    }
}

pub async fn an_empty_store_answers_every_query(fixture: &mut Fixture) {
    let snapshot = fixture.snapshot().await;
    assert_eq!(snapshot.contexts, []);
    assert_eq!((snapshot.all.hour, snapshot.all.last_hour), (None, None));
    assert_eq!(snapshot.fleet.instances, 0);
    assert_eq!(snapshot.fleet.recent, vec![]);
    assert_eq!(fixture.store.context("GET /", NOW).await.unwrap(), None);
    assert_eq!(fixture.counter("hits", 1).await, []);
    assert_eq!(fixture.records("GET /", 60).await, []);
    assert_eq!(fixture.slowest_means().await, []);
    let cleaned = fixture.clean().await;
    assert_eq!(cleaned, Default::default());
    fixture.merge_whole(fixture.batch(&[])).await;
    assert!(!fixture.store.describe().is_empty());
    assert_eq!(fixture.store.warnings(), Vec::<String>::new());
}

/// An instance may have recorded before the store's generation began: while the store was away, or before the
/// store was emptied.
pub async fn the_recorded_time_begins_with_the_first_sample(fixture: &mut Fixture) {
    const DAY: i64 = 24 * HOUR;
    fixture.store.hello().await.unwrap();
    fixture.advance(100);
    let mut earliest = NOW;
    let (too_old, oldest) = (NOW - 15 * DAY, NOW - 14 * DAY);
    let times = [NOW, NOW + 50, NOW - 12, NOW - 5, too_old, i64::MIN, oldest];
    for since in times.map(Some).into_iter().chain([None]) {
        let mut batch = fixture.batch(&[("GET /", Kind::Http, NOW, &[MS])]);
        batch.since = since;
        fixture.merge_whole(batch).await;
        // Samples that are older than all tiers are not stored.
        if let Some(since) = since.filter(|since| *since >= oldest) {
            earliest = earliest.min(since);
        }
        let (now, status) = (fixture.now(), fixture.status().await);
        let began = (status.created, status.since);
        assert_eq!(began, (Some(NOW), Some(earliest)));
        let index = fixture.store.query().record_index(now).await.unwrap();
        assert_eq!((index.created, index.recorded.since()), (NOW, earliest));
    }
}
