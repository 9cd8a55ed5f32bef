//! What happens to additions that are pending at a shutdown, or come after it.

use std::time::Duration;

use tower_pulse::{Pulse, RankingError};

use pulse_rig::server::RedisServer;

#[tokio::test]
async fn a_shutdown_flushes_additions_and_later_ones_are_refused() {
    let server = RedisServer::start().await;
    let build = || Pulse::builder().redis(server.url()).build().unwrap();
    let pulse = build();
    let posts = pulse.ranking("posts").build().unwrap();
    posts.add("7", 3);
    pulse.shutdown().await.unwrap();
    let error = posts.add_now("7", 1).await.unwrap_err();
    assert!(matches!(error, RankingError::ShutDown { .. }), "{error}");
    let recording = pulse.health().recording;
    assert_eq!((recording.dropped, recording.dropped_additions), (0, 1));
    let posts = build().ranking("posts").build().unwrap();
    posts.add_now("9", 1).await.unwrap();
    assert_eq!(posts.score("7").await.unwrap(), Some(3));
    assert_eq!(posts.len().await.unwrap(), 2);
}

#[tokio::test]
async fn a_shutdown_without_a_store_says_that_additions_are_lost() {
    let pulse = Pulse::builder().redis("redis://127.0.0.1:1/");
    let pulse = pulse.shutdown_timeout(Duration::from_millis(100));
    let pulse = pulse.build().unwrap();
    let posts = pulse.ranking("posts").build().unwrap();
    let error = posts.add_now("7", 1).await.unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert!(source.is_some_and(|source| source.contains("127.0.0.1:1")));
    assert!(error.to_string().contains("stays recorded"), "{error}");
    let error = pulse.shutdown().await.unwrap_err();
    assert_eq!((error.requests(), error.additions()), (0, 1));
    assert!(
        error
            .to_string()
            .contains("additions of 1 to counters and rankings"),
        "{error}"
    );
}
