//! Calls that are not interrupted. Their HTTP status is always 200; the gRPC status says how they ended.

use crate::counting::{assert_counts, wait_for_in_flight};
use tonic::Code;
use tonic::service::Routes;
use tonic::transport::Server;
use tower_pulse::Outcome::Success;

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
    let unknown = client.call("/test.Shop/Unknown", ask("ok")).await;
    assert_eq!(unknown.expect_err("unknown").code(), Code::Unimplemented);
    let unknown = client.call("/test.Other/Get", ask("ok")).await;
    assert_eq!(unknown.expect_err("unknown").code(), Code::Unimplemented);
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
async fn calls_at_once_on_one_connection_are_each_counted() {
    let fixture = Fixture::start().await;
    let mut calls = Vec::new();
    for number in 0..60 {
        let client = fixture.client.clone();
        let case = if number % 3 == 0 { "missing" } else { "wait" };
        calls.push(tokio::spawn(async move { client.get(case).await.is_ok() }));
    }
    wait_for_in_flight(&fixture.pulse, 40).await;
    fixture.gate.add_permits(40);
    let mut served = 0;
    for call in calls {
        served += usize::from(call.await.expect("no panic"));
    }
    assert_eq!(served, 40);
    assert_counts(&fixture.pulse, &[(GET, &[(Success, 60)], 20)]).await;
}

#[tokio::test]
async fn with_until_body_end_a_grpc_call_is_still_timed_to_its_head() {
    let fixture = Fixture::with(|parts, pulse| {
        let layer = pulse.layer_with(|head| Some(head.method.to_string().into()));
        let layer = layer.until_body_end();
        let routes = Server::builder().layer(layer).add_service(parts.shop);
        routes.serve_with_incoming(parts.incoming)
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
    let fixture = Fixture::with(|parts, pulse| {
        let router = Routes::new(parts.shop).into_axum_router();
        let router = router.layer(pulse.layer());
        let routes = Server::builder().add_routes(Routes::from(router));
        routes.serve_with_incoming(parts.incoming)
    })
    .await;
    fixture.client.get("ok").await.expect("OK");
    fixture.client.get("missing").await.expect_err("not found");
    read_all(fixture.client.list("ok").await.expect("a stream"))
        .await
        .1
        .expect("OK");
    assert_counts(
        &fixture.pulse,
        &[("POST /test.Shop/{*rest}", &[(Success, 3)], 1)],
    )
    .await;
}
