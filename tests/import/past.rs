//! A file with a past, and the Redis that it goes to.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use http::StatusCode;
use tower_pulse::import::{FileImport, ImportError, ImportedFile};
use tower_pulse::store::Store as Shared;
use tower_pulse::store::redis::{RedisOptions, RedisStore};

use crate::service::{Place, Service};
use pulse_rig::server::RedisServer;
use pulse_rig::wait::until;

pub const DAY: u64 = 86_400;

/// The past of a service.
pub struct Past {
    pub days: u64,
    pub contexts: usize,
    /// Days of the history, if it has one.
    pub history: Option<u64>,
    /// Seconds since its last request.
    pub ended_ago: u64,
}

impl Past {
    /// Records it into a file.
    pub async fn record(&self, place: &Place, rng: &mut Rng) {
        let service = Service::new(place.options(), &place.clock, |builder| {
            match self.history {
                Some(days) => builder.history(Duration::from_secs(days * DAY)),
                None => builder,
            }
        });
        service.is_open().await;
        // Every 47 minutes, then each half minute of the last three hours.
        let seldom = self.days * DAY / (47 * 60);
        let often = 360;
        let posts = service.pulse.ranking("posts").build().unwrap();
        for step in 0..seldom + often {
            for _ in 0..4 {
                let page = format!("GET /{}", rng.usize(..self.contexts));
                let time = Duration::from_micros(rng.u64(100..3_000_000));
                let status = match rng.u8(..8) {
                    0 => StatusCode::INTERNAL_SERVER_ERROR,
                    _ => StatusCode::OK,
                };
                service.pulse.record(&page, time, status);
                posts.add(&format!("post {}", rng.u8(..20)), rng.i64(1..9));
            }
            service.pulse.counter("served").add(rng.i64(1..9));
            service.pulse.time("db", async {}).await;
            if step % 200 == 3 {
                service.pulse.mark(&format!("mark {step}")).await.unwrap();
            }
            service.settle().await;
            place.hand.advance(match step < seldom {
                true => Duration::from_secs(47 * 60),
                false => Duration::from_secs(30),
            });
        }
        drop(posts);
        service.shutdown().await;
        place.released().await;
        place.hand.advance(Duration::from_secs(self.ended_ago));
    }
}

/// Many contexts, each with a request in each of some minutes.
pub async fn record_crowd(place: &Place, contexts: usize, minutes: u64) {
    let service = Service::new(place.options(), &place.clock, |builder| builder);
    service.is_open().await;
    for minute in 0..minutes {
        for number in 0..contexts {
            let time = Duration::from_micros(100 + minute + number as u64);
            (service.pulse).record(&format!("GET /page/{number}"), time, StatusCode::OK);
        }
        service.settle().await;
        place.hand.advance(Duration::from_secs(60));
    }
    service.shutdown().await;
    place.released().await;
    place.hand.advance(Duration::from_secs(600));
}

/// The store of a fleet, at the time of the test.
pub fn redis(url: &str, place: &Place, journal_bytes: Option<u64>) -> Arc<RedisStore> {
    let options = RedisOptions::new(url).unwrap().prefix("pulse:").unwrap();
    let options = options.response_timeout(Duration::from_secs(5));
    let options = match journal_bytes {
        Some(bytes) => options.journal_bytes(bytes),
        None => options,
    };
    Arc::new(
        RedisStore::open(options)
            .unwrap()
            .with_clock(place.clock.clone()),
    )
}

/// An import of the file.
pub fn import(place: &Place) -> FileImport {
    let import = FileImport::new(place.path()).unwrap();
    import.clock(place.clock.clone())
}

/// Imports the file, when nobody holds it.
pub async fn import_into(
    place: &Place,
    store: Arc<RedisStore>,
) -> Result<ImportedFile, ImportError> {
    place.released().await;
    import(place).run(Shared::from(store)).await
}

/// An instance of the fleet, which does only what the test says.
pub fn instance(place: &Place, store: Arc<RedisStore>, history: Option<u64>) -> tower_pulse::Pulse {
    let builder = tower_pulse::Pulse::builder()
        .store(store)
        .clock(place.clock.clone());
    let builder = match history {
        Some(days) => builder.history(Duration::from_secs(days * DAY)),
        None => builder,
    };
    let (pulse, tasks) = builder.build_with_tasks().unwrap();
    drop(tasks);
    pulse
}

/// Waits until a server answers again.
pub async fn answers(server: &RedisServer) {
    until("the server answers", async || {
        let Ok(mut connection) = server.client().get_multiplexed_async_connection().await else {
            return false;
        };
        redis::cmd("PING")
            .query_async::<String>(&mut connection)
            .await
            .is_ok()
    })
    .await;
}
