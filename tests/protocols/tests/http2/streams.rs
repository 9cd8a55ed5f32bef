//! Streams that share a connection, and those that are reset before their heads.

use crate::counting::{assert_counts, counted, in_flight};
use h2::Reason;
use http::StatusCode;
use pulse_rig::wait::until;
use tower_pulse::Outcome;

use crate::service::{Service, Until, read_all};

const BOTH: [Until; 2] = [Until::Head, Until::BodyEnd];

#[tokio::test]
async fn streams_of_one_connection_are_counted_by_route_and_outcome() {
    for to in BOTH {
        let service = Service::start(to).await;
        let mut connection = service.connect().await;
        let mut streams = Vec::new();
        for number in 0..25 {
            for path in ["/users/1", "/nowhere", "/moved", "/broken", "/empty"] {
                let path = path.replace('1', &number.to_string());
                streams.push(connection.open("GET", &path).await);
            }
            streams.push(connection.open("POST", "/users/1").await);
            streams.push(connection.open("HEAD", "/users/1").await);
        }
        let mut bytes = 0;
        for (response, _sending) in streams {
            let response = response.await.expect("an answer");
            bytes += read_all(response.into_body()).await.expect("a body").0;
        }
        // Only that of GET has a body.
        assert_eq!(bytes, 25 * "a user".len());
        assert_counts(
            &service.pulse,
            &[
                ("<unmatched>", counted(&[(Outcome::ClientError, 25)], 0)),
                ("GET /broken", counted(&[(Outcome::ServerError, 25)], 25)),
                ("GET /empty", counted(&[(Outcome::Success, 25)], 0)),
                ("GET /moved", counted(&[(Outcome::Redirection, 25)], 0)),
                ("GET /users/{id}", counted(&[(Outcome::Success, 25)], 0)),
                ("HEAD /users/{id}", counted(&[(Outcome::Success, 25)], 0)),
                (
                    "POST /users/{id}",
                    counted(&[(Outcome::ClientError, 25)], 0),
                ),
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn streams_are_in_flight_at_once_and_a_reset_cancels_one_of_them() {
    for to in BOTH {
        let service = Service::start(to).await;
        let mut connection = service.connect().await;
        let mut streams = Vec::new();
        for number in 0..50 {
            let path = format!("/wait/{number}");
            streams.push(connection.open("GET", &path).await);
        }
        until("all wait", async || in_flight(&service.pulse) == 50).await;
        let rest = streams.split_off(20);
        for (response, mut sending) in streams {
            sending.send_reset(Reason::CANCEL);
            response.await.expect_err("it was reset");
        }
        until("the others wait", async || in_flight(&service.pulse) == 30).await;
        service.gate.add_permits(30);
        for (response, _sending) in rest {
            let response = response.await.expect("an answer");
            read_all(response.into_body()).await.expect("a body");
        }
        let of_wait = counted(&[(Outcome::Success, 30), (Outcome::Cancelled, 20)], 0);
        assert_counts(&service.pulse, &[("GET /wait/{id}", of_wait)]).await;
    }
}

#[tokio::test]
async fn a_panic_ends_its_own_stream_only() {
    for to in BOTH {
        let service = Service::start(to).await;
        let mut connection = service.connect().await;
        let waiting = connection.open("GET", "/wait/1").await;
        for _ in 0..3 {
            let (response, _sending) = connection.open("GET", "/panic").await;
            response.await.expect_err("the handler panics");
        }
        service.gate.add_permits(1);
        let response = waiting.0.await.expect("an answer");
        assert_eq!(read_all(response.into_body()).await.expect("a body").0, 6);
        let asked = connection.ask("GET", "/users/1").await;
        assert_eq!(asked, (StatusCode::OK, 6));
        assert_counts(
            &service.pulse,
            &[
                ("GET /panic", counted(&[(Outcome::Panicked, 3)], 3)),
                ("GET /users/{id}", counted(&[(Outcome::Success, 1)], 0)),
                ("GET /wait/{id}", counted(&[(Outcome::Success, 1)], 0)),
            ],
        )
        .await;
    }
}
