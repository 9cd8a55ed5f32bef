//! Changes and marks, in either store.

use tower_pulse::model::changes::change::{Change, ChangeKind};
use tower_pulse::model::changes::detector::{DetectorState, Sight, Verdict};
use tower_pulse::model::changes::log::Log;
use tower_pulse::model::mark::{MAX_MARKS, Mark};
use tower_pulse::model::context::{Kind, RecordId};
use tower_pulse::store::changes::{ChangeLog, Judged, JudgementWrite};

use crate::fixture::{Fixture, NOW};

const MINUTE: i64 = 60;

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

pub async fn the_newest_marks_are_retained(fixture: &mut Fixture) {
    let changes = fixture.store.changes().unwrap();
    assert_eq!(changes.marks().await.unwrap(), []);
    let json = |n: i64| {
        let mark = format!(r#"{{"id":"{n}","at":{},"text":"deploy {n}"}}"#, NOW + n);
        serde_json::from_str::<Mark>(&mark).unwrap()
    };
    for n in 0..MAX_MARKS as i64 + 3 {
        assert!(changes.add_mark(&json(n)).await.unwrap());
        assert!(
            changes.add_mark(&json(n)).await.unwrap(),
            "it was sent again"
        );
    }
    let marks = changes.marks().await.unwrap();
    let expected: Vec<Mark> = (3..MAX_MARKS as i64 + 3).map(json).collect();
    assert_eq!(marks, expected);

    // Marks of versions are retained beside them.
    let version = |n: i64| {
        let at = NOW + 1_000 + n;
        let mark = format!(r#"{{"id":"v{n}","at":{at},"text":"version 1.{n}","version":"1.{n}"}}"#);
        serde_json::from_str::<Mark>(&mark).unwrap()
    };
    for n in 0..MAX_MARKS as i64 + 3 {
        assert!(changes.add_mark(&version(n)).await.unwrap());
    }
    for n in 0..3 {
        let newer = json(2_000 + n);
        assert!(changes.add_mark(&newer).await.unwrap());
    }
    let marks = changes.marks().await.unwrap();
    let others = (6..MAX_MARKS as i64 + 3).map(json);
    let versions = (3..MAX_MARKS as i64 + 3).map(version);
    let newest = (2_000..2_003).map(json);
    let expected: Vec<Mark> = others.chain(versions).chain(newest).collect();
    assert_eq!(marks, expected);

    // Another program has added to them, and not even JSON.
    if let Some(server) = &fixture.server {
        let mut redis = server.connection().await;
        for (score, mark) in [(i64::MAX, "no JSON"), (i64::MAX, "7"), (i64::MAX, "[]")] {
            let mut add = redis::cmd("ZADD");
            add.arg("pulse:pulse:marks").arg(score).arg(mark);
            add.exec_async(&mut redis).await.unwrap();
        }
        for n in 0..2 * MAX_MARKS {
            let mut add = redis::cmd("ZADD");
            add.arg("pulse:pulse:marks").arg(7).arg(format!("{n}"));
            add.exec_async(&mut redis).await.unwrap();
        }
        assert!(changes.add_mark(&json(3_000)).await.unwrap());
        let mut count = redis::cmd("ZCARD");
        let count: usize = count
            .arg("pulse:pulse:marks")
            .query_async(&mut redis)
            .await
            .unwrap();
        assert_eq!(count, 2 * MAX_MARKS);
        assert_eq!(changes.marks().await.unwrap().last(), Some(&json(3_000)));
    }
}

pub async fn a_version_is_marked_when_it_follows_another(fixture: &mut Fixture) {
    let changes = fixture.store.changes().unwrap();
    let mark = async |at: i64, version: Option<&str>| {
        let version = version.map_or("null".to_owned(), |version| format!("{version:?}"));
        let mark = format!(r#"{{"id":"{at}","at":{at},"text":"x","version":{version}}}"#);
        let mark: Mark = serde_json::from_str(&mark).unwrap();
        changes.add_mark(&mark).await.unwrap()
    };
    assert!(mark(NOW, Some("1.4.1")).await);
    assert!(!mark(NOW + 1, Some("1.4.1")).await);
    assert!(mark(NOW + 2, None).await);
    assert!(!mark(NOW + 3, Some("1.4.1")).await);
    assert!(mark(NOW + 4, Some("1.4.2")).await);
    // The new version is taken back.
    assert!(mark(NOW + 5, Some("1.4.1")).await);
    let marks = changes.marks().await.unwrap();
    let at: Vec<_> = marks.iter().map(|mark| mark.at - NOW).collect();
    assert_eq!(at, [0, 2, 4, 5]);
}
