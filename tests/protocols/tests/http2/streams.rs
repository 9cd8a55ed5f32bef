//! Streams that share a connection, and streams that are reset before their heads.

use h2::Reason;
use tower_pulse::Outcome::{Cancelled, Panicked, Success};

use crate::counting::{assert_counts, wait_for_in_flight};
use crate::service::{Connection, Service, read_all};

#[tokio::test]
async fn a_reset_or_a_panic_ends_only_its_own_stream() {
    Service::each(async |service: &mut Service, mut connection: Connection| {
        let mut streams = connection.open_waiting(50).await;
        wait_for_in_flight(&service.pulse, 50).await;
        let others = streams.split_off(20);
        for (response, mut sending) in streams {
            sending.send_reset(Reason::CANCEL);
            response.await.expect_err("the stream was reset");
        }
        wait_for_in_flight(&service.pulse, 30).await;
        for _ in 0..3 {
            let (response, _sending) = connection.open("GET", "/panic").await;
            response.await.expect_err("the handler panics");
        }
        service.gate.add_permits(30);
        for (response, _sending) in others {
            let response = response.await.expect("an answer");
            assert_eq!(read_all(response.into_body()).await.expect("a body").0, 6);
        }
        let (body, _sending) = connection.body("/users/1").await;
        assert_eq!(read_all(body).await.expect("a body").0, 6);
        assert_counts(
            &service.pulse,
            &[
                ("GET /panic", &[(Panicked, 3)], 3),
                ("GET /users/{id}", &[(Success, 1)], 0),
                ("GET /wait/{id}", &[(Success, 30), (Cancelled, 20)], 0),
            ],
        )
        .await;
    })
    .await;
}
