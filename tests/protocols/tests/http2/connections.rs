//! Connections that end, because the server sends GOAWAY or the client closes them.

use pulse_rig::wait::until;
use tower_pulse::Outcome::{Cancelled, Success};

use crate::counting::{assert_counts, wait_for_in_flight};
use crate::service::{Connection, Service, read_all};

#[tokio::test]
async fn requests_in_flight_when_the_server_goes_away_are_finished_and_counted() {
    Service::each(async |service: &mut Service, mut connection: Connection| {
        let streams = connection.open_waiting(10).await;
        wait_for_in_flight(&service.pulse, 10).await;
        service.shut_down();
        // GOAWAY says that the server accepts no further stream.
        until("the connection takes no streams", async || {
            connection.send.clone().ready().await.is_err()
        })
        .await;
        wait_for_in_flight(&service.pulse, 10).await;
        service.gate.add_permits(10);
        for (response, _sending) in streams {
            let response = response.await.expect("an answer");
            read_all(response.into_body()).await.expect("a body");
        }
        service.ended().await;
        let ended = connection.task.await.expect("no panic");
        ended.expect("the connection ends without an error");
        assert_counts(&service.pulse, &[("GET /wait/{id}", &[(Success, 10)], 0)]).await;
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_is_cut_cancels_waiting_requests_and_aborts_bodies() {
    Service::each(async |service: &mut Service, mut connection: Connection| {
        let _streams = connection.open_waiting(10).await;
        let mut bodies = Vec::new();
        for _ in 0..4 {
            bodies.push(connection.body("/endless").await);
        }
        wait_for_in_flight(&service.pulse, 10 + service.in_flight_bodies(4)).await;
        connection.cut();
        assert_counts(
            &service.pulse,
            &[
                ("GET /endless", &[(service.outcome_if_cut_off(), 4)], 0),
                ("GET /wait/{id}", &[(Cancelled, 10)], 0),
            ],
        )
        .await;
    })
    .await;
}
