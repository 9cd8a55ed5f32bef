//! Calls with their statuses, calls that clients give up, and deadlines. The HTTP status is always 200; the gRPC status
//! says how a call ended.

use std::time::Duration;

use tonic::Code;
use tonic::service::Routes;
use tonic::transport::Server;
use tower_pulse::Outcome::{Cancelled, Success};

use crate::counting::{assert_counts, wait_for_in_flight};
use crate::shop::{Fixture, GET, LIST, ask, read_all};

#[tokio::test]
async fn a_status_in_a_head_is_an_error_but_a_status_in_trailers_is_not() {
    let fixture = Fixture::start().await;
    let client = &fixture.client;
    for _ in 0..5 {
        assert_eq!(client.get("ok").await.expect("OK"), 1);
    }
    // An answer without a message has the status in its head.
    for _ in 0..3 {
        let status = client.get("missing").await.expect_err("not found");
        assert_eq!(status.code(), Code::NotFound);
    }
    for _ in 0..2 {
        let status = client.list("refused").await.expect_err("refused");
        assert_eq!(status.code(), Code::PermissionDenied);
    }
    for _ in 0..4 {
        let numbers = client.list("ok").await.expect("a stream");
        let (numbers, ended) = read_all(numbers).await;
        ended.expect("OK");
        assert_eq!(numbers, [0, 1, 2]);
    }
    // The request is timed to the head of the answer, which does not contain the status of the stream.
    for _ in 0..6 {
        let numbers = client.list("internal").await.expect("a stream");
        let (numbers, ended) = read_all(numbers).await;
        assert_eq!(ended.expect_err("lost").code(), Code::Internal);
        assert_eq!(numbers, [0, 1, 2]);
    }
    for path in ["/test.Shop/Unknown", "/test.Other/Get"] {
        let unknown = client.call(path, ask("ok")).await;
        assert_eq!(unknown.expect_err(path).code(), Code::Unimplemented);
    }
    assert_counts(
        &fixture.pulse,
        &[
            (GET, &[(Success, 8)], 3),
            (LIST, &[(Success, 12)], 2),
            ("<other>", &[(Success, 2)], 2),
        ],
    )
    .await;
}

#[tokio::test]
async fn with_until_body_end_a_grpc_call_is_still_timed_to_its_head() {
    let fixture = Fixture::with(|server, pulse| {
        let layer = pulse.layer_with(|head| Some(head.method.to_string().into()));
        let layer = layer.until_body_end();
        let routes = Server::builder().layer(layer).add_service(server.shop);
        routes.serve_with_incoming(server.incoming)
    })
    .await;
    let numbers = fixture.client.list("endless").await.expect("a stream");
    // The stream is still open.
    assert_counts(&fixture.pulse, &[("POST", &[(Success, 1)], 0)]).await;
    drop(numbers);
    fixture.client.get("missing").await.expect_err("not found");
    assert_counts(&fixture.pulse, &[("POST", &[(Success, 2)], 1)]).await;
}

/// tonic's `Routes` contain a router of axum. A layer on this router knows the service, but not its methods.
#[tokio::test]
async fn the_layer_of_axum_on_tonics_router_counts_by_service() {
    let fixture = Fixture::with(|server, pulse| {
        let router = Routes::new(server.shop).into_axum_router();
        let router = router.layer(pulse.layer());
        let routes = Server::builder().add_routes(Routes::from(router));
        routes.serve_with_incoming(server.incoming)
    })
    .await;
    fixture.client.get("ok").await.expect("OK");
    fixture.client.get("missing").await.expect_err("not found");
    let numbers = fixture.client.list("ok").await.expect("a stream");
    read_all(numbers).await.1.expect("OK");
    let expected = ("POST /test.Shop/{*rest}", &[(Success, 3)][..], 1);
    assert_counts(&fixture.pulse, &[expected]).await;
}

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

/// At the deadline, the client or the server ends the call outside of all layers. The layer only sees that the request
/// is dropped.
#[tokio::test]
async fn a_call_beyond_its_deadline_is_cancelled() {
    let fixture = Fixture::start().await;
    for _ in 0..3 {
        let deadline = Duration::from_millis(100);
        let late = fixture.client.get_within("wait", deadline).await;
        let code = late.expect_err("too late").code();
        let is_late = matches!(code, Code::Cancelled | Code::DeadlineExceeded);
        assert!(is_late, "{code:?}");
    }
    let minute = Duration::from_secs(60);
    let in_time = fixture.client.get_within("ok", minute).await;
    assert_eq!(in_time.expect("OK"), 1);
    assert_counts(&fixture.pulse, &[(GET, &[(Success, 1), (Cancelled, 3)], 0)]).await;
}
