//! Calls that are interrupted: clients that give up, deadlines, and panics.

use std::time::Duration;

use crate::counting::{assert_counts, wait_for_in_flight};
use tonic::Code;
use tower_pulse::Outcome::{Cancelled, Panicked, Success};

use crate::shop::{Fixture, GET, LIST};

#[tokio::test]
async fn a_call_that_the_client_gives_up_is_cancelled() {
    let fixture = Fixture::start().await;
    let mut calls = Vec::new();
    for _ in 0..9 {
        let client = fixture.client.clone();
        calls.push(tokio::spawn(async move { client.get("wait").await }));
    }
    wait_for_in_flight(&fixture.pulse, 9).await;
    for call in calls.drain(..4) {
        call.abort();
    }
    wait_for_in_flight(&fixture.pulse, 5).await;
    fixture.gate.add_permits(5);
    for call in calls {
        assert_eq!(call.await.expect("no panic").expect("OK"), 2);
    }
    assert_counts(&fixture.pulse, &[(GET, &[(Success, 5), (Cancelled, 4)], 0)]).await;
}

#[tokio::test]
async fn a_stream_that_the_client_gives_up_after_its_head_is_a_success() {
    let fixture = Fixture::start().await;
    for _ in 0..3 {
        let mut numbers = fixture.client.list("endless").await.expect("a stream");
        for number in 0..3 {
            let reply = numbers.message().await.expect("a number");
            assert_eq!(reply.expect("a number").number, number);
        }
    }
    assert_counts(&fixture.pulse, &[(LIST, &[(Success, 3)], 0)]).await;
}

/// At the deadline, the client or the server ends the call outside of all layers. The layer only sees that its request
/// is dropped.
#[tokio::test]
async fn a_call_beyond_its_deadline_is_cancelled() {
    let fixture = Fixture::start().await;
    for _ in 0..3 {
        let deadline = Duration::from_millis(100);
        let late = fixture.client.get_within("wait", deadline).await;
        let code = late.expect_err("too late").code();
        assert!(
            [Code::Cancelled, Code::DeadlineExceeded].contains(&code),
            "{code:?}"
        );
    }
    let in_time = fixture
        .client
        .get_within("ok", Duration::from_secs(60))
        .await;
    assert_eq!(in_time.expect("OK"), 1);
    assert_counts(&fixture.pulse, &[(GET, &[(Success, 1), (Cancelled, 3)], 0)]).await;
}

#[tokio::test]
async fn a_handler_that_panics_is_counted_as_panicked() {
    let fixture = Fixture::start().await;
    fixture
        .client
        .get("panic")
        .await
        .expect_err("the handler panics");
    assert_eq!(fixture.client.get("ok").await.expect("OK"), 1);
    assert_counts(&fixture.pulse, &[(GET, &[(Success, 1), (Panicked, 1)], 1)]).await;
}
