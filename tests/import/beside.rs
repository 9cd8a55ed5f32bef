//! An import beside a fleet that records: the sums are those of both.

use std::time::Duration;

use http::StatusCode;

use crate::past::{import_into, instance, record_crowd, redis};
use crate::service::Place;
use crate::stored;
use pulse_rig::server::RedisServer;

const PAGE: &str = "GET /page/7";

#[tokio::test]
async fn the_sums_are_those_of_the_file_and_of_the_fleet() {
    let place = Place::new();
    record_crowd(&place, 500, 40).await;
    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    let fleet: Vec<_> = (0..3)
        .map(|_| instance(&place, store.clone(), None))
        .collect();
    let mut served = 0;
    let mut importing = Box::pin(import_into(&place, store.clone()));
    let mut is_imported = false;
    // Until the import is done, and for a while after it.
    let mut after = 0;
    while after < 20 {
        for pulse in &fleet {
            for number in 0..50 {
                let page = format!("GET /page/{number}");
                pulse.record(&page, Duration::from_millis(3), StatusCode::OK);
            }
        }
        served += fleet.len() as u64;
        let flushing = futures_util::future::join_all(fleet.iter().map(|pulse| pulse.flush()));
        for flushed in flushing.await {
            flushed.unwrap();
        }
        place.hand.advance(Duration::from_secs(1));
        if is_imported {
            after += 1;
            continue;
        }
        tokio::select! {
            imported = &mut importing => {
                imported.unwrap();
                is_imported = true;
            }
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    }
    drop(importing);
    // All minutes are rolled up.
    place.hand.advance(Duration::from_secs(120));
    fleet[0].record("GET /last", Duration::from_millis(3), StatusCode::OK);
    fleet[0].flush().await.unwrap();
    let found = stored::read(&*store, place.clock.now_seconds(), None).await;
    for (seconds, requests) in found.requests_of(PAGE) {
        assert_eq!(requests, 40 + served, "{seconds}");
    }
    for (seconds, requests) in found.requests_by_tier() {
        let last = u64::from(seconds == 60);
        assert_eq!(requests, 500 * 40 + 50 * served + last, "{seconds}");
    }
}
