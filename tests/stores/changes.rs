//! Changes and marks, in each store.

use std::ops::Range;

use serde_json::json;
use tower_pulse_core::store::conditional_write::{ConditionalWrite, Written};
use tower_pulse_core::store::judgement::{ChangeLog, read_changes, read_judged, read_judgement};
use tower_pulse_core::store::marks;
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::table_reads::{Purpose, TableRead};
use tower_pulse_detect::change::{Change, ChangeKind};
use tower_pulse_detect::detector::{Cost, Verdict};
use tower_pulse_detect::last_judgement::LastJudgement;
use tower_pulse_detect::log::{Log, MAX_CHANGES};
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::mark::{MAX_MARKS, Mark};

use crate::rig::instances::TestFolder;
use crate::rig::server::issue;
use crate::stores::fixture::{Fixture, MergeReport, NOW};

const MINUTE: i64 = 60;

fn change(context: &str) -> Change {
    let verdict = Verdict {
        context: RecordId::new(Kind::Http, context),
        kind: ChangeKind::Slower,
        instance: None,
        error: None,
        since: NOW - 300,
        detected: NOW,
        then: 0.1,
        now: 0.2,
        ratio: 2.0,
        is_tail: false,
        confidence: 0.999,
        requests: 90,
        minutes: 3,
        cost: Cost {
            taken: 6.0,
            from_traffic: 0.0,
            from_code: 3.0,
        },
        mean_then: 0.1,
        mean_now: 0.2,
    };
    let mut log = Log::default();
    let began = log.apply(&[(context.into(), verdict)], NOW).began;
    log.get(&began[0]).unwrap().clone()
}

/// The last judgement, and the changes sorted by id.
async fn log(fixture: &Fixture) -> ChangeLog {
    let mut log = read_changes(fixture.store.journal()).await.unwrap();
    log.changes.sort_by(|a, b| a.id.cmp(&b.id));
    log
}

async fn changes(fixture: &Fixture) -> Vec<Change> {
    log(fixture).await.changes
}

fn sorted(mut changes: Vec<Change>) -> Vec<Change> {
    changes.sort_by(|a, b| a.id.cmp(&b.id));
    changes
}

/// Begins a journal. Returns two folders that may judge.
async fn judges(fixture: &Fixture) -> [TestFolder; 2] {
    fixture.store.hello().await.unwrap();
    ["one", "two"].map(|name| fixture.folder(name, None))
}

pub async fn a_judgement_from_outdated_data_is_not_written(fixture: &mut Fixture) {
    let [judge, _] = judges(fixture).await;
    assert_eq!(log(fixture).await, ChangeLog::default());

    // Names are data: they may contain `<` and quotes.
    let (first, second) = (change("GET /\"<x>\""), change("GET /b"));
    let saved = [first.clone()];
    let saved = judge.judgement(NOW, &saved, &[]).await.unwrap();
    let outdated = [second.clone()];
    let outdated = judge.judgement(NOW, &outdated, &[]).await.unwrap();
    assert_eq!(judge.write(&saved).await.unwrap(), Written::Done);
    for write in [&saved, &outdated] {
        assert_eq!(judge.write(write).await.unwrap(), Written::Differs);
    }
    let read = log(fixture).await;
    assert_eq!(read.changes, vec![first.clone()]);
    assert_eq!(read.judged.until, NOW);

    let mut ended = first.clone();
    ended.ended = Some(NOW + MINUTE);
    let both = [second.clone(), ended.clone()];
    let write = judge.judgement(NOW + MINUTE, &both, &[]).await.unwrap();
    assert_eq!(judge.write(&write).await.unwrap(), Written::Done);
    assert_eq!(changes(fixture).await, sorted(both.into()));

    let removal = judge.judgement(NOW + 2 * MINUTE, &[], &[&*first.id]).await;
    assert_eq!(judge.write(&removal.unwrap()).await.unwrap(), Written::Done);
    let read = log(fixture).await;
    assert_eq!(read.changes, [second]);
    assert_eq!(read.judged.until, NOW + 2 * MINUTE);
}

pub async fn of_two_judgements_at_once_one_is_written(fixture: &mut Fixture) {
    let [one, two] = judges(fixture).await;
    for minute in 0..10 {
        let until = NOW + minute * MINUTE;
        let found = [change(&format!("GET /{minute}"))];
        let first = one.judgement(until, &found, &[]).await.unwrap();
        let second = two.judgement(until, &found, &[]).await.unwrap();
        let (first, second) = tokio::join!(one.write_by_hand(&first), two.write_by_hand(&second));
        let written = [first.unwrap(), second.unwrap()];
        assert!(written.contains(&Written::Done), "{written:?}");
        assert!(written.contains(&Written::Differs), "{written:?}");
        assert_eq!(log(fixture).await.judged.until, until);
    }
    assert_eq!(changes(fixture).await.len(), 10);
}

/// A full log, with changes as large as real changes.
fn full_log() -> Vec<Change> {
    let changes = (0..MAX_CHANGES).map(|n| {
        let mut change = change(&format!("GET /a/page/with/{{a_long}}/{{name}}/{n}"));
        let suspect = |n| serde_json::json!({
            "kind": "timer", "timer": format!("db:find_something_by_its_name_{n}"), "then": 0.1, "now": 0.2, "share": 0.9,
            "text": format!("db:find_something_by_its_name_{n}, 200 ms a request instead of 100 ms, 90 % of the added time"),
        });
        let suspects: Vec<_> = (0..16).map(suspect).collect();
        change.suspects = serde_json::from_value(suspects.into()).unwrap();
        change
    });
    sorted(changes.collect())
}

fn ended(changes: &[Change]) -> Vec<Change> {
    let mut changes = changes.to_vec();
    for change in &mut changes {
        change.ended = Some(NOW + MINUTE);
    }
    changes
}

/// The number of fields in both tables of a judgement.
async fn field_count(fixture: &Fixture) -> usize {
    let journal = fixture.store.journal();
    let counts = [Table::Changes, Table::Detector].map(TableRead::Count);
    let mut counts = journal.read_tables(Purpose::Query, &counts).await.unwrap();
    counts.page().count + counts.page().count
}

pub async fn a_full_log_is_read_in_pages(fixture: &mut Fixture) {
    let [judge, _] = judges(fixture).await;
    let full = full_log();
    let write = judge.judgement(NOW, &full, &[]).await.unwrap();
    assert!(write.steps.len() > 1);
    for step in &write.steps {
        let set = step.iter().flat_map(|writes| &writes.set);
        let bytes: usize = set.map(|(field, value)| field.len() + value.len()).sum();
        assert!(bytes < 300 * 1024, "{bytes}");
    }
    assert_eq!(judge.write(&write).await.unwrap(), Written::Done);
    assert_eq!(changes(fixture).await, full);
    let journal = fixture.store.journal();
    let page = [TableRead::Page(Table::Changes, None)];
    let mut page = journal.read_tables(Purpose::Query, &page).await.unwrap();
    assert!(page.page().next.is_some(), "the log fits on one page");
    // All changes are replaced, and no old fields are left.
    let ended = ended(&full);
    let before = field_count(fixture).await;
    let write = judge.judgement(NOW + MINUTE, &ended, &[]).await.unwrap();
    assert_eq!(judge.write(&write).await.unwrap(), Written::Done);
    assert_eq!(changes(fixture).await, ended);
    assert_eq!(field_count(fixture).await, before);
}

/// The first steps of a write, as if the instance had died after these steps.
fn begun(write: &ConditionalWrite, steps: usize) -> ConditionalWrite {
    ConditionalWrite {
        steps: write.steps[..steps].to_vec(),
        ..write.clone()
    }
}

pub async fn a_judgement_that_is_not_finished_does_not_count(fixture: &mut Fixture) {
    let [dying, next] = judges(fixture).await;
    let full = full_log();
    let last = [full[0].clone(), full[7].clone()];
    let first = dying.judgement(NOW, &full, &[]).await.unwrap();
    assert_eq!(dying.write(&begun(&first, 1)).await.unwrap(), Written::Done);
    assert_eq!(changes(fixture).await, []);
    assert_eq!(log(fixture).await.judged.until, 0);
    // A write that began from the same judgement has no effect.
    assert_eq!(dying.write(&first).await.unwrap(), Written::Differs);
    let write = next.judgement(NOW, &last, &[]).await.unwrap();
    assert_eq!(next.write_by_hand(&write).await.unwrap(), Written::Done);
    assert_eq!(changes(fixture).await, sorted(last.to_vec()));
    let few = field_count(fixture).await;
    assert_eq!(few, 3, "fields of the unfinished judgement are left");

    let ended = ended(&full);
    for steps in [1, 2] {
        let write = dying.judgement(NOW + MINUTE, &ended, &[]).await.unwrap();
        assert!(write.steps.len() > steps);
        let write = begun(&write, steps);
        assert_eq!(dying.write_by_hand(&write).await.unwrap(), Written::Done);
        let read = log(fixture).await;
        assert_eq!(read.changes, sorted(last.to_vec()));
        assert_eq!(read.judged.until, NOW);
    }
    let all = field_count(fixture).await;
    assert!(all > 200, "{all}");
    let judgement = read_judgement(fixture.store.journal()).await;
    assert!(judgement.unwrap().changes.obsolete.len() > 200);
    // The next judge knows more requests, and finds other changes.
    let removed = [&*full[7].id];
    let write = next.judgement(NOW + MINUTE, &ended[..1], &removed);
    let write = write.await.unwrap();
    assert_eq!(next.write_by_hand(&write).await.unwrap(), Written::Done);
    assert_eq!(changes(fixture).await, ended[..1]);
    assert_eq!(field_count(fixture).await, 2);
    let judged = read_judged(fixture.store.journal()).await.unwrap();
    assert_eq!(judged.judged.until, NOW + MINUTE);
    assert_ne!(judged.judged, LastJudgement::default());
}

fn mark(n: i64) -> Mark {
    let mark = json!({ "id": n.to_string(), "at": NOW + n, "text": "x" });
    serde_json::from_value(mark).unwrap()
}

async fn add(fixture: &mut Fixture, marks: Range<i64>) -> MergeReport {
    let mut batch = fixture.batch(&[]);
    marks.for_each(|n| batch.add_mark(mark(n)).unwrap());
    fixture.merge(batch).await
}

async fn stored(fixture: &Fixture) -> Vec<Mark> {
    marks::list(&*fixture.store).await.unwrap()
}

pub async fn the_newest_marks_are_retained(fixture: &mut Fixture) {
    assert_eq!(stored(fixture).await, []);
    let most = MAX_MARKS as i64;
    // Some marks are sent twice, and some of the last marks are too old to be stored.
    for marks in [0..40, 30..41, 41..42, 41..42, 42..most + 3, 0..9] {
        add(fixture, marks).await;
    }
    let newest: Vec<Mark> = (3..most + 3).map(mark).collect();
    assert_eq!(stored(fixture).await, newest);

    let Some(keys) = &fixture.keys else {
        return;
    };
    let marks = &*keys.key("pulse:marks1");
    // Another program adds fields to the marks.
    let mut redis = keys.connection().await;
    let garbage = (0..2 * MAX_MARKS).map(|n| (format!("other {n}"), "garbage"));
    let garbage: Vec<_> = garbage.collect();
    let others = (marks, garbage, "4000", "replaced by the mark", "", "no id");
    let () = issue(&mut redis, "HSET", others).await;
    assert_eq!(stored(fixture).await, newest);
    add(fixture, 4_000..4_001).await;
    assert_eq!(stored(fixture).await.last(), Some(&mark(4_000)));
    let count: usize = issue(&mut redis, "HLEN", marks).await;
    assert_eq!(count, MAX_MARKS);
    // Another program replaces the marks by a string.
    let () = issue(&mut redis, "SET", (marks, "garbage")).await;
    assert_eq!(stored(fixture).await, []);
    let report = add(fixture, 5_000..5_001).await;
    assert_eq!(report.quarantined[0].key, marks);
    let () = issue(&mut redis, "DEL", marks).await;
    add(fixture, 5_000..5_001).await;
    assert_eq!(stored(fixture).await, [mark(5_000)]);
}
