//! Incidents like those of the demo, on four instances whose clocks the test moves. Each incident begins after
//! 45 minutes, and does not end.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use fastrand::Rng;
use http::Request as HttpRequest;
use tower::ServiceExt;
use tower_pulse::{ManualClock, Pulse};

use crate::changes::fleet::{Backend, Fleet, MINUTE};
use crate::changes::traffic::{Request, SEARCH, Traffic, slow_down};
use crate::rig::seed::fixed_seed;

/// The page that a bad deploy makes slower, and that has the surge.
pub const PRODUCT: &str = "GET /products/{id}";
/// The page that fails.
pub const LOGIN: &str = "POST /login";
/// The page that has timers, and that a slow query makes slower.
pub const ORDER: &str = "GET /order/{id}";
/// The query that is slow.
pub const QUERY: &str = "db:find_order";

/// The minutes before an incident, and the minutes since its start.
const BEFORE: i64 = 45;
const SINCE: i64 = 11;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    SlowQuery,
    BadDeploy,
    BadInstance,
    Errors,
    Surge,
}

impl Incident {
    /// The affected page.
    pub fn page(self) -> &'static str {
        match self {
            Self::SlowQuery => ORDER,
            Self::BadDeploy | Self::Surge => PRODUCT,
            Self::BadInstance => SEARCH,
            Self::Errors => LOGIN,
        }
    }

    /// Applies the incident to the requests of a minute.
    fn apply(self, requests: &mut [Request]) {
        match self {
            // `happen` makes the query slow, and draws the requests of a surge.
            Self::SlowQuery | Self::Surge => {}
            Self::BadDeploy => {
                for request in requests.iter_mut().filter(|request| request.instance < 2) {
                    slow_down(std::slice::from_mut(request), PRODUCT, 4.0);
                }
            }
            Self::BadInstance => {
                for request in requests.iter_mut().filter(|request| request.instance == 2) {
                    request.duration = request.duration.mul_f64(4.0);
                }
            }
            Self::Errors => {
                let logins = requests
                    .iter_mut()
                    .filter(|request| *request.context == *LOGIN);
                for (_, request) in logins.enumerate().filter(|(at, _)| at % 3 == 0) {
                    request.status = 500;
                }
            }
        }
    }

    /// Lets the incident happen. Returns the fleet, and the start of the incident.
    pub async fn happen(self, backend: Backend) -> (Fleet, i64) {
        let seed = fixed_seed();
        let mut fleet = Fleet::with_versions(backend, &[Some("1.0"); 4]);
        let mut traffic = Traffic::new(seed, 4);
        let orders = Orders::new(&fleet);
        let mut rng = Rng::with_seed(seed);
        for _ in 0..BEFORE {
            let requests = traffic.minute();
            orders
                .pass(&mut fleet, &requests, 1.0, false, &mut rng)
                .await;
        }
        if self == Self::BadDeploy {
            fleet.deploy_to_first(2, "1.1").await;
        }
        let began = fleet.now;
        // A deploy has replaced instances.
        let orders = Orders::new(&fleet);
        for _ in 0..SINCE {
            let mut requests = traffic.minute_with(|context| match context {
                PRODUCT if self == Self::Surge => 6.0,
                _ => 1.0,
            });
            self.apply(&mut requests);
            let query = if self == Self::SlowQuery { 8.0 } else { 1.0 };
            orders
                .pass(
                    &mut fleet,
                    &requests,
                    query,
                    self == Self::BadInstance,
                    &mut rng,
                )
                .await;
        }
        assert_eq!(fleet.now - began, SINCE * MINUTE);
        (fleet, began)
    }
}

/// A page whose requests go through the layer of the last instance, and have two timers.
struct Orders {
    app: Router,
    time: ManualClock,
    pulse: Pulse,
}

impl Orders {
    fn new(fleet: &Fleet) -> Self {
        let instance = &fleet.instances[3];
        let (pulse, time) = (instance.pulse.clone(), instance.time.clone());
        let handler = {
            let (pulse, time) = (pulse.clone(), time.clone());
            move |headers: http::HeaderMap| {
                let (pulse, time) = (pulse.clone(), time.clone());
                async move {
                    let micros = |name: &str| {
                        let micros = headers[name].to_str().unwrap().parse().unwrap();
                        Duration::from_micros(micros)
                    };
                    let query = async { time.advance(micros("query")) };
                    pulse.time(QUERY, query).await;
                    let user = async { time.advance(micros("user")) };
                    pulse.time("db:find_user", user).await;
                    time.advance(micros("own"));
                }
            }
        };
        let routes = Router::new().route("/order/{id}", get(handler));
        Self {
            app: routes.layer(pulse.layer()),
            time,
            pulse,
        }
    }

    /// Passes a minute, and judges it. The query takes `query_factor` times as long as usual.
    async fn pass(
        &self,
        fleet: &mut Fleet,
        requests: &[Request],
        query_factor: f64,
        is_host_busy: bool,
        rng: &mut Rng,
    ) {
        let second = fleet.now + 30;
        let mut drawn = Vec::new();
        for _ in 0..40 {
            let own = 15_000.0 * (rng.f64() + rng.f64() + 0.5);
            let query = 10_000.0 * (rng.f64() + rng.f64());
            let query = [query * query_factor, query / 3.0, own];
            drawn.push(query.map(|micros| micros as u64));
        }
        let minute = fleet.now;
        let record_more = async |fleet: &Fleet| {
            for (number, instance) in fleet.instances.iter().enumerate() {
                let is_busy = is_host_busy && number == 2;
                let millis = if is_busy { 40 } else { 1 };
                let cpu = if is_busy { 0.98 } else { 0.2 };
                let simulation = instance.pulse.simulation();
                simulation.machine(minute, cpu, Duration::from_millis(millis));
            }
            for (id, [query, user, own]) in drawn.into_iter().enumerate() {
                self.time.set_wall(second);
                let request = HttpRequest::get(format!("/order/{id}"))
                    .header("query", query)
                    .header("user", user)
                    .header("own", own);
                let request = request.body(Body::empty()).unwrap();
                self.app.clone().oneshot(request).await.unwrap();
            }
            self.time.set_wall(second);
            self.pulse.simulation().drain();
        };
        fleet.pass_with(requests, record_more).await;
        assert_eq!(fleet.judge().await, 1);
    }
}
