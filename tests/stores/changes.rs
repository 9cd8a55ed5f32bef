//! Changes and marks, in either store.

use serde_json::json;
use tower_pulse::model::batch::Batch;
use tower_pulse::model::changes::change::{Change, ChangeKind};
use tower_pulse::model::changes::detector::{DetectorState, Sight, Verdict};
use tower_pulse::model::changes::log::Log;
use tower_pulse::model::context::{Kind, RecordId};
use tower_pulse::model::mark::{MAX_MARKS, Mark};
use tower_pulse::store::changes::{ChangeLog, Judged, JudgementWrite};
use tower_pulse::store::marks;

use crate::fixture::{Fixture, MergeReport, NOW};

const MINUTE: i64 = 60;
/// The key of the marks in Redis.
const MARKS: &str = "pulse:pulse:marks1";

/// The change that a verdict about a context makes.
fn change(context: &str) -> Change {
    let verdict = Verdict {
        context: RecordId::new(Kind::Http, context),
        kind: ChangeKind::Slower,
        instance: None,
        since: NOW - 300,
        detected: NOW,
        then: 0.1,
        now: 0.2,
        ratio: 2.0,
        is_tail: false,
        confidence: 0.999,
        requests: 90,
        rate_then: 30.0,
        rate_now: 30.0,
        mean_then: 0.1,
        mean_now: 0.2,
    };
    let mut log = Log::default();
    let began = log.apply(&[(context.into(), verdict)], NOW).began;
    log.get(&began[0]).unwrap().clone()
}

/// A judgement of one more minute.
fn write(expected: &str, revision: &str, changes: Vec<Change>) -> JudgementWrite {
    JudgementWrite {
        expected: expected.to_owned(),
        judged: Judged {
            revision: revision.to_owned(),
            until: NOW + MINUTE,
            sight: Sight::default(),
        },
        detector: DetectorState::default(),
        changes,
        removed: Vec::new(),
    }
}

fn sorted(mut log: ChangeLog) -> ChangeLog {
    log.changes.sort_by(|a, b| a.id.cmp(&b.id));
    log
}

pub async fn a_judgement_replaces_the_one_that_it_was_made_from(fixture: &mut Fixture) {
    let changes = fixture.store.changes().unwrap();
    assert_eq!(changes.judged().await.unwrap(), Judged::default());
    assert_eq!(changes.change_log().await.unwrap(), ChangeLog::default());

    // `<` and quotes: names are data.
    let (first, second) = (change("GET /\"<x>\""), change("GET /b"));
    let one = write("", "one", vec![first.clone()]);
    assert!(changes.write_judgement(&one).await.unwrap());
    // Its answer was lost, and it was sent again.
    assert!(changes.write_judgement(&one).await.unwrap());
    let other = write("", "other", vec![second.clone()]);
    assert!(!changes.write_judgement(&other).await.unwrap());
    assert_eq!(changes.judged().await.unwrap(), one.judged);
    let log = changes.change_log().await.unwrap();
    assert_eq!((log.changes, log.judged), (vec![first.clone()], one.judged));

    let mut ended = first.clone();
    ended.ended = Some(NOW + 2 * MINUTE);
    let two = write("one", "two", vec![second.clone(), ended.clone()]);
    assert!(changes.write_judgement(&two).await.unwrap());
    let log = sorted(changes.change_log().await.unwrap());
    let mut expected = vec![second.clone(), ended];
    expected.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(log.changes, expected);

    let mut three = write("two", "three", Vec::new());
    three.removed.push(first.id.to_string());
    assert!(changes.write_judgement(&three).await.unwrap());
    let log = changes.change_log().await.unwrap();
    assert_eq!((log.changes, log.judged), (vec![second], three.judged));
}

/// A mark, with a version if it has one.
fn mark(id: &str, at: i64, version: Option<&str>) -> Mark {
    serde_json::from_value(json!({ "id": id, "at": at, "text": "x", "version": version })).unwrap()
}

fn plain(n: i64) -> Mark {
    mark(&n.to_string(), NOW + n, None)
}

fn version(n: i64) -> Mark {
    mark(&format!("v{n}"), NOW + 1_000 + n, Some(&format!("1.{n}")))
}

/// Sends marks as the next call.
async fn add(fixture: &mut Fixture, marks: impl IntoIterator<Item = Mark>) -> MergeReport {
    let mut batch = Batch::new(fixture.precisions.clone());
    for mark in marks {
        batch.add_mark(mark).unwrap();
    }
    fixture.merge(batch).await
}

async fn stored(fixture: &Fixture) -> Vec<Mark> {
    marks::list(&*fixture.store).await.unwrap()
}

pub async fn the_newest_marks_are_retained(fixture: &mut Fixture) {
    assert_eq!(stored(fixture).await, []);
    let most = MAX_MARKS as i64;
    // Several at once, and one by one; each is sent twice.
    for marks in [0..40, 30..41, 41..42, 41..42, 42..most + 3] {
        add(fixture, marks.map(plain)).await;
    }
    let expected: Vec<Mark> = (3..most + 3).map(plain).collect();
    assert_eq!(stored(fixture).await, expected);

    // Marks of versions are retained beside them.
    add(fixture, (0..most + 3).map(version)).await;
    add(fixture, (2_000..2_003).map(plain)).await;
    let others = (6..most + 3).map(plain);
    let versions = (3..most + 3).map(version);
    let newest = (2_000..2_003).map(plain);
    let expected: Vec<Mark> = others.chain(versions).chain(newest).collect();
    assert_eq!(stored(fixture).await, expected);
    // Those that are gone come too late.
    add(fixture, (0..9).map(plain).chain((0..3).map(version))).await;
    assert_eq!(stored(fixture).await, expected);
    for hundred in 30..35 {
        add(fixture, (100 * hundred..100 * (hundred + 1)).map(plain)).await;
    }
    let left = stored(fixture).await;
    assert_eq!(left.len(), 2 * MAX_MARKS);
    assert!(
        left.iter()
            .take(MAX_MARKS)
            .cloned()
            .eq((3..most + 3).map(version))
    );

    let Some(server) = &fixture.server else {
        return;
    };
    // Another program has added to them.
    let mut redis = server.connection().await;
    let mut run = async |words: &[&str]| -> i64 {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut redis).await.unwrap()
    };
    for n in 0..2 * MAX_MARKS {
        run(&["HSET", MARKS, &format!("other {n}"), "garbage"]).await;
    }
    run(&["HSET", MARKS, "4000", "replaced by the mark"]).await;
    run(&["HSET", MARKS, "", "no id"]).await;
    assert_eq!(stored(fixture).await, left);
    add(fixture, [plain(4_000)]).await;
    assert_eq!(stored(fixture).await.last(), Some(&plain(4_000)));
    assert_eq!(run(&["HLEN", MARKS]).await, 2 * MAX_MARKS as i64);
    // And has put something else in their place.
    run(&["DEL", MARKS]).await;
    run(&["RPUSH", MARKS, "garbage"]).await;
    assert_eq!(stored(fixture).await, []);
    let report = add(fixture, [plain(5_000)]).await;
    assert_eq!(report.quarantined[0].key, MARKS);
    run(&["DEL", MARKS]).await;
    add(fixture, [plain(5_000)]).await;
    assert_eq!(stored(fixture).await, [plain(5_000)]);
}

pub async fn a_version_is_marked_when_it_follows_another(fixture: &mut Fixture) {
    let of =
        |seconds: i64, version: Option<&str>| mark(&seconds.to_string(), NOW + seconds, version);
    let seconds = async |fixture: &Fixture| -> Vec<i64> {
        let marks = stored(fixture).await;
        marks.iter().map(|mark| mark.at - NOW).collect()
    };
    add(fixture, [of(0, Some("1.4.1")), of(1, Some("1.4.1"))]).await;
    add(fixture, [of(2, None)]).await;
    add(fixture, [of(3, Some("1.4.1"))]).await;
    add(fixture, [of(4, Some("1.4.2"))]).await;
    // The new version is taken back.
    add(fixture, [of(5, Some("1.4.1"))]).await;
    assert_eq!(seconds(fixture).await, [0, 2, 4, 5]);
    // An instance whose clock is behind.
    add(fixture, [of(-1, Some("1.4.1"))]).await;
    assert_eq!(seconds(fixture).await, [0, 2, 4, 5]);
}
