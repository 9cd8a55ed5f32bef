//! What a process leaves to the next one.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use http::StatusCode;
use serde_json::Value;
use tower::ServiceExt;
use tower_pulse::admin::Access;
use tower_pulse::{Change, Clock, Pulse};
use tower_pulse_core::store::Upkeep;
use tower_pulse_core::testing::TestFolder;

use crate::service::{NOW, PAGE, Place, released};
use pulse_rig::process::TempDir;
use pulse_rig::wait::until;

#[tokio::test]
async fn the_next_process_goes_on_where_the_last_one_was() {
    let place = Place::new();
    let pages = [PAGE.to_owned(), "GET /slow".to_owned()];
    for round in 1..=3 {
        let service = place.start();
        service.serve(PAGE, 100);
        let slow = Duration::from_secs(2);
        let failed = StatusCode::INTERNAL_SERVER_ERROR;
        service.pulse.record("GET /slow", slow, failed);
        service.pulse.counter("served").add(1);
        service
            .pulse
            .ranking("posts")
            .build()
            .unwrap()
            .add("first", 2);
        service.shutdown().await;
        place.released().await;
        let service = place.start();
        service.is_open().await;
        assert_eq!(service.served(&pages).await, [101 * round; 3]);
        let posts = service.pulse.ranking("posts").build().unwrap();
        assert_eq!(posts.top(0, 1).await.unwrap()[0].score, 2 * round as i64);
        drop(posts);
        place.hand.advance(Duration::from_secs(3_600));
        service.shutdown().await;
        place.released().await;
    }
    assert_eq!(place.files(), ["pulse.redb"]);
    assert!(place.clock.now_seconds() > NOW);
}

#[tokio::test]
async fn the_time_between_two_processes_is_not_recorded() {
    let place = Place::new();
    let service = place.start();
    service.serve(PAGE, 10);
    service.shutdown().await;
    place.released().await;
    let ended = place.clock.now_seconds();
    // A restart of a few seconds leaves no gap.
    for (away, gaps) in [(5, vec![]), (1_200, vec![(ended + 5, ended + 1_205)])] {
        place.hand.advance(Duration::from_secs(away));
        let service = place.start();
        service.is_open().await;
        let status = service.store.status(place.clock.now_seconds());
        assert_eq!(status.await.unwrap().gaps, gaps);
        service.shutdown().await;
        place.released().await;
    }
}

/// What the API answers.
async fn ask(pulse: &Pulse, question: &str) -> Value {
    let request = Request::get(question).header("host", "localhost");
    let request = request.body(Body::empty()).unwrap();
    let router = pulse.router(Access::open());
    let response = router.oneshot(request).await.unwrap();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn a_deploy_is_marked_by_its_version() {
    let dir = TempDir::new("file");
    let path = dir.path().join("pulse.redb");
    for (deploys, version) in ["1.0.0", "1.1.0", "1.2.0"].into_iter().enumerate() {
        let builder = Pulse::builder().file(&path).app_version(version);
        let builder = builder.shutdown_timeout(Duration::from_secs(10));
        let pulse = builder.clock(Clock::system()).build().unwrap();
        pulse.record(PAGE, Duration::from_millis(20), http::StatusCode::OK);
        until("the deploy is marked", async || {
            let marks = ask(&pulse, "/api/marks").await;
            marks["marks"].as_array().map(Vec::len) == Some(deploys)
        })
        .await;
        pulse.shutdown().await.unwrap();
        drop(pulse);
        released(&path).await;
    }
}

#[tokio::test]
async fn the_usual_week_goes_on_after_a_restart_without_the_time_between() {
    let place = Place::new();
    let hours = async |served: usize, away: u64| {
        let service = place.start();
        service.is_open().await;
        for _ in 0..served {
            service.serve(PAGE, 10);
            service.pulse.flush().await.unwrap();
            place.hand.advance(Duration::from_secs(3_600));
        }
        service.serve(PAGE, 1);
        service.pulse.flush().await.unwrap();
        let uri = format!("/api/profile?context={}", PAGE.replace(' ', "%20"));
        let answer = ask(&service.pulse, &uri).await;
        service.shutdown().await;
        place.released().await;
        place.hand.advance(Duration::from_secs(away));
        let hours = answer["hours"].as_array().unwrap().clone();
        let weights = hours.iter().map(|hour| hour["weight"].as_f64().unwrap());
        (hours.len(), weights.sum::<f64>())
    };
    let (first, _) = hours(4, 10 * 3_600).await;
    let (second, weight) = hours(4, 0).await;
    assert!((3..=4).contains(&first), "{first} hours");
    assert!((first + 4..=first + 6).contains(&second), "{second} hours");
    // Of ten hours between the two processes none counts.
    assert!(weight < 9.0, "{weight}");
}

/// Somebody takes a change, and removes a mark; the next process knows of both.
#[tokio::test]
async fn what_was_taken_and_removed_stays_so_after_a_restart() {
    let place = Place::new();
    let change = serde_json::json!({
        "id": "1", "kind": "slower", "context": PAGE, "instance": null, "since": NOW - 600, "detected": NOW - 300,
        "ended": null, "then": 0.1, "now": 0.2, "ratio": 2.0, "is_tail": false, "confidence": 0.999, "requests": 400,
        "minutes": 5, "seconds_per_minute": 2.0, "extra_seconds_per_minute": 1.0, "from_traffic": 0.0, "from_code": 1.0, "suspects": [],
        "yesterday": null, "week_ago": null,
    });
    let change: Change = serde_json::from_value(change).unwrap();
    let service = place.start();
    service.serve(PAGE, 10);
    service.settle().await;
    let judge = TestFolder::new(service.store.clone(), place.clock.clone(), "judge", 1);
    let judged = judge
        .judgement(NOW, std::slice::from_ref(&change), &[])
        .await;
    judge.write_by_hand(&judged.unwrap()).await.unwrap();
    judge.release().await.unwrap();
    drop(judge);
    let pulse = &service.pulse;
    let (kept, gone) = (
        pulse.mark("kept").await.unwrap(),
        pulse.mark("gone").await.unwrap(),
    );
    let taken = pulse
        .acknowledge_change("1", "ada")
        .await
        .unwrap()
        .acknowledged;
    pulse.remove_mark(&gone.id).await.unwrap();
    service.shutdown().await;
    place.released().await;
    for _ in 0..2 {
        place.hand.advance(Duration::from_secs(60));
        let service = place.start();
        service.is_open().await;
        let changes = service.pulse.changes().await.unwrap();
        assert_eq!((changes.len(), &changes[0].acknowledged), (1, &taken));
        assert_eq!(
            service
                .pulse
                .query()
                .ask(&tower_pulse::query::MarksQuery::default())
                .await
                .unwrap()
                .marks,
            std::slice::from_ref(&kept)
        );
        service.shutdown().await;
        place.released().await;
    }
}
