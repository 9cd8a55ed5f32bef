//! Bodies: large ones under flow control, those that end early, and trailers.

use crate::counting::{assert_counts, counted, in_flight};
use axum::body::Bytes;
use h2::Reason;
use http::StatusCode;
use pulse_rig::wait::until;
use tower_pulse::Outcome;

use crate::service::{LARGE, Service, Until, read_all};

/// The outcome of a response whose body does not come to its end.
fn cut_off(to: Until) -> Outcome {
    match to {
        Until::Head => Outcome::Success,
        Until::BodyEnd => Outcome::BodyAborted,
    }
}

#[tokio::test]
async fn a_large_body_is_one_request_until_its_last_byte_is_taken() {
    for to in [Until::Head, Until::BodyEnd] {
        let service = Service::start(to).await;
        let mut connection = service.connect().await;
        let mut bodies = Vec::new();
        for _ in 0..3 {
            let (response, _sending) = connection.open("GET", "/large").await;
            bodies.push(response.await.expect("a head").into_body());
        }
        // No window is open for what is left of them.
        let left = if to == Until::BodyEnd { 3 } else { 0 };
        until("the windows are full", async || {
            in_flight(&service.pulse) == left
        })
        .await;
        for body in bodies {
            assert_eq!(read_all(body).await.expect("a body").0, LARGE);
        }
        let large = counted(&[(Outcome::Success, 3)], 0);
        assert_counts(&service.pulse, &[("GET /large", large)]).await;
    }
}

#[tokio::test]
async fn a_reset_within_a_body_aborts_it() {
    for to in [Until::Head, Until::BodyEnd] {
        let service = Service::start(to).await;
        let mut connection = service.connect().await;
        for _ in 0..7 {
            let (response, mut sending) = connection.open("GET", "/endless").await;
            let mut body = response.await.expect("a head").into_body();
            body.data().await.expect("a chunk").expect("a chunk");
            sending.send_reset(Reason::CANCEL);
        }
        // The reader drops the stream without a word: a reset as well.
        for _ in 0..2 {
            let (response, _) = connection.open("GET", "/endless").await;
            response.await.expect("a head");
        }
        let endless = counted(&[(cut_off(to), 9)], 0);
        assert_counts(&service.pulse, &[("GET /endless", endless)]).await;
    }
}

#[tokio::test]
async fn a_body_that_fails_is_aborted_and_its_stream_reset() {
    for to in [Until::Head, Until::BodyEnd] {
        let service = Service::start(to).await;
        let mut connection = service.connect().await;
        let (response, _sending) = connection.open("GET", "/half").await;
        // The reset may overtake the head.
        let read = async { read_all(response.await?.into_body()).await };
        let error = read.await.expect_err("the body fails");
        assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
        let half = counted(&[(cut_off(to), 1)], 0);
        assert_counts(&service.pulse, &[("GET /half", half)]).await;
    }
}

#[tokio::test]
async fn trailers_pass() {
    for to in [Until::Head, Until::BodyEnd] {
        let service = Service::start(to).await;
        let mut connection = service.connect().await;
        let (response, _sending) = connection.open("GET", "/trailers").await;
        let body = response.await.expect("a head").into_body();
        let (bytes, trailers) = read_all(body).await.expect("a body");
        assert_eq!(
            (bytes, &trailers.expect("trailers")["x-sum"]),
            (4, &"7".parse().expect("a value"))
        );
        let passed = counted(&[(Outcome::Success, 1)], 0);
        assert_counts(&service.pulse, &[("GET /trailers", passed)]).await;
    }
}

#[tokio::test]
async fn an_upload_is_one_request_and_one_that_is_reset_is_cancelled() {
    for to in [Until::Head, Until::BodyEnd] {
        let service = Service::start(to).await;
        let mut connection = service.connect().await;
        let (response, mut sending) = connection.begin("POST", "/upload", false).await;
        let mut left = LARGE;
        while left > 0 {
            sending.reserve_capacity(left.min(64 * 1024));
            let room = std::future::poll_fn(|cx| sending.poll_capacity(cx)).await;
            let part = room.expect("the stream is open").expect("room").min(left);
            let is_last = part == left;
            let chunk = Bytes::from(vec![1; part]);
            sending.send_data(chunk, is_last).expect("it is sent");
            left -= part;
        }
        let response = response.await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        let length = read_all(response.into_body()).await.expect("a body").0;
        assert_eq!(length, LARGE.to_string().len());

        let (response, mut sending) = connection.begin("POST", "/upload", false).await;
        let chunk = Bytes::from_static(b"the beginning");
        sending.send_data(chunk, false).expect("it is sent");
        until("it has begun", async || in_flight(&service.pulse) == 1).await;
        sending.send_reset(Reason::CANCEL);
        response.await.expect_err("it was reset");
        let uploads = counted(&[(Outcome::Success, 1), (Outcome::Cancelled, 1)], 0);
        assert_counts(&service.pulse, &[("POST /upload", uploads)]).await;
    }
}
