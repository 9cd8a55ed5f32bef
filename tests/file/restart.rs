//! What a process leaves to the next one.

use std::time::Duration;

use http::StatusCode;

use crate::service::{NOW, PAGE, Place};

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
