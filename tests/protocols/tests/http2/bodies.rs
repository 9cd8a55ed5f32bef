//! Large bodies under flow control, bodies that end early, and trailers.

use axum::body::Bytes;
use h2::Reason;
use http::StatusCode;
use tower_pulse::Outcome::{BodyFailed, Cancelled, Success};

use crate::counting::{assert_counts, wait_for_in_flight};
use crate::service::{Connection, LARGE, Service, read_all};

#[tokio::test]
async fn a_body_is_one_request_however_it_ends() {
    Service::each(async |service: &mut Service, mut connection: Connection| {
        let mut bodies = Vec::new();
        for _ in 0..3 {
            bodies.push(connection.body("/large").await);
        }
        // The flow-control windows are full, so the bodies end only when the client reads them.
        wait_for_in_flight(&service.pulse, service.in_flight_bodies(3)).await;
        for (body, _sending) in bodies {
            assert_eq!(read_all(body).await.expect("a body").0, LARGE);
        }

        for _ in 0..7 {
            let (mut body, mut sending) = connection.body("/endless").await;
            body.data().await.expect("a chunk").expect("a chunk");
            sending.send_reset(Reason::CANCEL);
        }
        // Dropping a stream resets it too.
        for _ in 0..2 {
            drop(connection.body("/endless").await);
        }

        let (response, _sending) = connection.open("GET", "/half").await;
        // The reset may arrive before the head.
        let read = async { read_all(response.await?.into_body()).await };
        let error = read.await.expect_err("the body fails");
        assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));

        let (body, _sending) = connection.body("/trailers").await;
        let (bytes, trailers) = read_all(body).await.expect("a body");
        let sum = &trailers.expect("trailers")["x-sum"];
        assert_eq!((bytes, sum.as_bytes()), (4, &b"7"[..]));
        let cut_off = service.outcome_if_cut_off();
        let (failed, errors) = match cut_off {
            Success => (Success, 0),
            _ => (BodyFailed, 1),
        };
        assert_counts(
            &service.pulse,
            &[
                ("GET /large", &[(Success, 3)], 0),
                ("GET /endless", &[(cut_off, 9)], 0),
                ("GET /half", &[(failed, 1)], errors),
                ("GET /trailers", &[(Success, 1)], 0),
            ],
        )
        .await;
    })
    .await;
}

#[tokio::test]
async fn an_upload_is_one_request_and_a_reset_upload_is_cancelled() {
    Service::each(async |service: &mut Service, mut connection: Connection| {
        let (response, mut sending) = connection.begin("POST", "/upload", false).await;
        let mut left = LARGE;
        while left > 0 {
            sending.reserve_capacity(left.min(64 * 1024));
            let room = std::future::poll_fn(|cx| sending.poll_capacity(cx)).await;
            let part = room.expect("the stream is open").expect("room").min(left);
            let chunk = Bytes::from(vec![1; part]);
            left -= part;
            sending
                .send_data(chunk, left == 0)
                .expect("the chunk is sent");
        }
        let response = response.await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        let length = read_all(response.into_body()).await.expect("a body").0;
        assert_eq!(length, LARGE.to_string().len());

        let (response, mut sending) = connection.begin("POST", "/upload", false).await;
        let chunk = Bytes::from_static(b"the beginning");
        sending.send_data(chunk, false).expect("the chunk is sent");
        wait_for_in_flight(&service.pulse, 1).await;
        sending.send_reset(Reason::CANCEL);
        response.await.expect_err("the stream was reset");
        let uploads = &[(Success, 1), (Cancelled, 1)];
        assert_counts(&service.pulse, &[("POST /upload", uploads, 0)]).await;
    })
    .await;
}
