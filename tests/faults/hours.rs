//! The turn of the hour. The counters must have all served requests. The statistics of this hour and the last must have
//! all of them too, apart from the requests that are counted as late.

use std::time::Duration;

use tower_pulse::Clock;
use tower_pulse_model::slice::{HOUR, hour_of, iso_hour};

use crate::faults::service::{
    PATIENT, PREFIX, Service, context, now, options, statistics_by_hour, with_clocks,
};
use crate::rig::server::RedisServer;
use crate::rig::wait::{let_tasks_run, until};

#[tokio::test]
async fn an_hour_turns_within_a_batch() {
    let server = RedisServer::start().await;
    let turn = hour_of(now()) + HOUR;
    let (clock, hand) = Clock::manual(turn - 1);
    let options = options(&server.url(), PATIENT);
    let service = Service::new(with_clocks(options, &clock, &clock));
    let sets = async || {
        let mut conn = server.connection().await;
        statistics_by_hour(&mut conn, PREFIX, &context(0)).await
    };
    // Lets the tasks begin to wait for the next second.
    let_tasks_run().await;
    let requests = async |n: usize| {
        for _ in 0..n {
            service.request(0).await;
        }
    };
    requests(10).await;
    hand.advance(Duration::from_secs(1));
    until("they are drained", async || {
        service.health().recording.pending_series > 0
    })
    .await;
    requests(7).await;
    service.settle().await;
    assert_eq!(
        sets().await,
        [(iso_hour(turn), 7), (iso_hour(turn - HOUR), 10)]
    );
    service.assert_exact(&server).await;

    // The first drain after the turn still counts for the hour that has ended.
    hand.advance(Duration::from_secs(HOUR as u64 - 1));
    service.settle().await;
    requests(5).await;
    hand.advance(Duration::from_secs(1));
    service.settle().await;
    requests(1).await;
    service.settle().await;
    assert_eq!(
        sets().await,
        [(iso_hour(turn + HOUR), 1), (iso_hour(turn), 12)]
    );
    service.pulse.shutdown().await.unwrap();
}
