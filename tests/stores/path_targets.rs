//! The API's answers about the targets of single contexts: error budgets and burn rates.

use std::time::Duration;

use axum::Router;
use http::StatusCode;
use serde_json::{Value, json};
use tower_pulse::admin::Access;
use tower_pulse::{Builder, Clock, Dashboard, ManualClock, Outcome, Pulse, RequestOutcome};

use crate::rig::asking;
use crate::rig::server::RedisServer;
use crate::stores::fixture::NOW;
use crate::stores::windows::{near, number};

const CHECKOUT: &str = "POST /checkout";
const CART: &str = "GET /cart";
const WITHIN: Duration = Duration::from_millis(250);

async fn get(app: &Router, uri: &str) -> Value {
    asking::json(app, &format!("/pulse/api/{uri}")).await
}

/// The number of counted requests of a window, the number of bad requests, and the burn rate in hundredths.
fn burn(window: &Value) -> (u64, u64, Option<u64>) {
    let number = |name: &str| window[name].as_u64().unwrap();
    let rate = window["burn_rate"].as_f64();
    let rate = rate.map(|rate| (100.0 * rate).round() as u64);
    (number("counted"), number("bad"), rate)
}

/// An instance with targets, and its router.
struct Shop {
    pulse: Pulse,
    app: Router,
    clock: Clock,
    manual_clock: ManualClock,
}

impl Shop {
    fn new(builder: Builder) -> Self {
        let (clock, manual_clock) = Clock::manual(NOW);
        let builder = builder.clock(clock.clone()).target(2 * WITHIN);
        let builder = builder.target_for(CHECKOUT, WITHIN, 0.95);
        let builder = builder.target_for(CART, WITHIN, 0.5);
        let builder = builder.target_for("GET /never", WITHIN, 0.5);
        let (pulse, _tasks) = builder.build_with_tasks().unwrap();
        let app = Router::new().merge(pulse.mount("/pulse", Access::open()));
        Self {
            pulse,
            app,
            clock,
            manual_clock,
        }
    }

    async fn record(&self) {
        let record = |context: &str, count, millis, outcome: RequestOutcome| {
            for _ in 0..count {
                let duration = Duration::from_millis(millis);
                self.pulse.record(context, duration, outcome);
            }
        };
        let ok = || StatusCode::OK.into();
        // A hundred requests count, of which ten are bad.
        record(CHECKOUT, 90, 100, ok());
        record(CHECKOUT, 6, 500, ok());
        record(CHECKOUT, 4, 1, StatusCode::BAD_GATEWAY.into());
        // These requests do not count, because the client caused the outcome.
        record(CHECKOUT, 30, 1, StatusCode::NOT_FOUND.into());
        record(CHECKOUT, 20, 900, Outcome::Cancelled.into());
        // Half of these requests are bad, which the target just allows.
        record(CART, 7, 100, ok());
        record(CART, 7, 400, ok());
        record("GET /other", 10, 10_000, ok());
        self.pulse.record_duration("timer", Duration::ZERO);
        self.pulse.flush().await.unwrap();
    }

    async fn advance(&self, minutes: u64) {
        self.manual_clock.advance(Duration::from_secs(60 * minutes));
        self.pulse.simulation().drain();
        self.pulse.flush().await.unwrap();
    }

    async fn target(&self) -> Value {
        let path = get(&self.app, "path?context=POST+/checkout").await;
        path["path_target"].clone()
    }
}

#[tokio::test]
async fn paths_burn_their_budget() {
    let shop = Shop::new(Pulse::builder());
    shop.record().await;
    let target = shop.target().await;
    assert_eq!(target["duration"], 0.25);
    assert_eq!(target["share"], 0.95);
    assert_eq!(target["burns"], true);
    for window in ["five_minutes", "one_hour", "six_hours", "budget"] {
        assert_eq!(burn(&target[window]), (100, 10, Some(200)), "{window}");
        let error = target[window]["error"].as_f64().unwrap();
        assert!((0.01..0.09).contains(&error), "{window}: {error}");
    }
    near(&target["budget_left"], -1.0, 1e-9);
    let length = |window: &str| number(&target[window], "to") - number(&target[window], "from");
    assert!((300..=360).contains(&length("five_minutes")));
    assert!((3_600..=3_720).contains(&length("one_hour")));
    assert!((21_600..=25_200).contains(&length("six_hours")));

    // The overview lists a target that burns, but not a target whose budget is just used up.
    let overview = get(&shop.app, "overview?window=1h").await;
    let burning = overview["burning"].as_array().unwrap();
    assert_eq!(burning.len(), 1, "{burning:?}");
    assert_eq!(burning[0]["context"], CHECKOUT);
    assert_eq!(burn(&burning[0]["six_hours"]), (100, 10, Some(200)));
    // The target of all requests is longer: of the 124 counted requests, 104 succeed in less time, and 6 in exactly
    // this time.
    assert_eq!(overview["target"], 0.5);
    for window in ["hour", "window"] {
        let below = overview[window]["below_target"].as_f64().unwrap();
        let expected = 104.0 / 124.0..=110.0 / 124.0;
        assert!(expected.contains(&below), "{window}: {below}");
    }
    let cart = get(&shop.app, "path?context=GET+/cart&window=1h").await;
    assert_eq!(cart["window"]["below_target"], 0.5, "its own target");
    let cart = &cart["path_target"];
    assert_eq!(burn(&cart["one_hour"]), (14, 7, Some(100)));
    assert_eq!(cart["burns"], json!(false));
    assert_eq!(cart["budget_left"], json!(0.0));
    let paths = get(&shop.app, "paths?window=1h&kind=all").await;
    for row in paths["paths"].as_array().unwrap() {
        let target = &row["path_target"];
        match row["context"].as_str().unwrap() {
            CHECKOUT => assert_eq!(burn(&target["one_hour"]), (100, 10, Some(200))),
            CART => {
                assert_eq!(target["burns"], false);
                assert_eq!(row["below_target"], 0.5);
            }
            "timer" => assert_eq!(row["below_target"], Value::Null),
            _ => assert_eq!(target, &Value::Null),
        }
    }

    // A target stops burning after an hour without bad requests, although the last six hours still burn.
    shop.advance(10).await;
    let target = shop.target().await;
    assert_eq!(burn(&target["five_minutes"]), (0, 0, None));
    assert_eq!(burn(&target["one_hour"]), (100, 10, Some(200)));
    assert_eq!(target["burns"], true);
    shop.advance(110).await;
    let target = shop.target().await;
    assert_eq!(burn(&target["one_hour"]), (0, 0, None));
    assert_eq!(target["one_hour"]["bad_share"], Value::Null);
    assert_eq!(burn(&target["six_hours"]), (100, 10, Some(200)));
    assert_eq!(target["burns"], false);
    assert_eq!(get(&shop.app, "overview").await["burning"], json!([]));
    let duration = Duration::from_millis(100);
    (0..300).for_each(|_| shop.pulse.record(CHECKOUT, duration, StatusCode::OK));
    shop.pulse.flush().await.unwrap();
    shop.advance(0).await;
    shop.manual_clock.advance(Duration::from_secs(2));
    let target = shop.target().await;
    assert_eq!(burn(&target["one_hour"]), (300, 0, Some(0)));
    assert_eq!(burn(&target["budget"]), (400, 10, Some(50)));
    near(&target["budget_left"], 0.5, 1e-9);

    // A week later, only the budget still has these requests.
    shop.advance(60 * (7 * 24 - 1)).await;
    let target = shop.target().await;
    assert_eq!(burn(&target["six_hours"]), (0, 0, None));
    assert_eq!(burn(&target["budget"]), (400, 10, Some(50)));
}

#[tokio::test]
async fn each_process_shows_its_own_targets() {
    let redis = RedisServer::start().await;
    let shop = Shop::new(Pulse::builder().redis(redis.url()));
    // Two dashboards read the same records. One dashboard has another target, and the other dashboard has no target.
    shop.record().await;
    let (clock, _manual_clock) = Clock::manual(shop.clock.now_seconds());
    let dashboard = || Dashboard::builder().redis(redis.url()).clock(clock.clone());
    let other = dashboard().target_for(CHECKOUT, Duration::from_millis(750), 0.5);
    let app: Router = other.build().unwrap().mount("/pulse", Access::open());
    let path = get(&app, "path?context=POST+/checkout").await;
    assert_eq!(burn(&path["path_target"]["one_hour"]), (100, 4, Some(8)));
    let app: Router = dashboard().build().unwrap().mount("/pulse", Access::open());
    let path = get(&app, "path?context=POST+/checkout").await;
    assert_eq!(path["path_target"], Value::Null);
}
