//! Connections that end: told to go away by the server, or cut by the client.

use crate::counting::{assert_counts, counted, in_flight};
use pulse_rig::wait::until;
use tower_pulse::Outcome;

use crate::service::{Service, Until, read_all};

#[tokio::test]
async fn what_is_in_flight_when_the_server_goes_away_is_finished_and_counted() {
    for to in [Until::Head, Until::BodyEnd] {
        let mut service = Service::start(to).await;
        let mut connection = service.connect().await;
        let mut streams = Vec::new();
        for number in 0..10 {
            let path = format!("/wait/{number}");
            streams.push(connection.open("GET", &path).await);
        }
        until("all wait", async || in_flight(&service.pulse) == 10).await;
        service.shut_down();
        // GOAWAY says that no further stream is taken.
        until("the connection takes no streams", async || {
            connection.send.clone().ready().await.is_err()
        })
        .await;
        assert_eq!(in_flight(&service.pulse), 10);
        service.gate.add_permits(10);
        for (response, _sending) in streams {
            let response = response.await.expect("an answer");
            read_all(response.into_body()).await.expect("a body");
        }
        service.ended().await;
        connection
            .task
            .await
            .expect("no panic")
            .expect("a quiet end");
        let waited = counted(&[(Outcome::Success, 10)], 0);
        assert_counts(&service.pulse, &[("GET /wait/{id}", waited)]).await;
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_cancels_what_waits_and_aborts_what_is_sent() {
    for to in [Until::Head, Until::BodyEnd] {
        let service = Service::start(to).await;
        let mut connection = service.connect().await;
        let mut streams = Vec::new();
        for number in 0..10 {
            let path = format!("/wait/{number}");
            streams.push(connection.open("GET", &path).await);
        }
        let mut bodies = Vec::new();
        for _ in 0..4 {
            let (response, _sending) = connection.open("GET", "/endless").await;
            bodies.push(response.await.expect("a head").into_body());
        }
        let sent = if to == Until::BodyEnd { 4 } else { 0 };
        until("all wait", async || in_flight(&service.pulse) == 10 + sent).await;
        connection.cut();
        let aborted = match to {
            Until::Head => Outcome::Success,
            Until::BodyEnd => Outcome::BodyAborted,
        };
        assert_counts(
            &service.pulse,
            &[
                ("GET /endless", counted(&[(aborted, 4)], 0)),
                ("GET /wait/{id}", counted(&[(Outcome::Cancelled, 10)], 0)),
            ],
        )
        .await;
    }
}
