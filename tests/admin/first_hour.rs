//! Health and other answers advise a new user who has put the layer in a wrong place, or has not named a file service.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use serde_json::Value;
use tower::ServiceBuilder;
use tower_http::services::ServeDir;
use tower_http::timeout::TimeoutLayer;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, ManualClock, Pulse};

use crate::admin::serve;
use crate::rig::http::Client;

const NOW: i64 = 1_700_001_000;

fn pulse() -> (Pulse, ManualClock) {
    let (clock, manual_clock) = Clock::manual(NOW);
    (Pulse::builder().clock(clock).build().unwrap(), manual_clock)
}

/// Serves `app` and the dashboard, and requests each of `paths`.
async fn served(pulse: &Pulse, app: Router, paths: &[&str]) -> Client {
    let app = app.merge(pulse.mount("/pulse", Access::open()));
    let mut client = Client::connect(serve(app).await).await;
    for path in paths {
        client.get(path).await;
    }
    pulse.flush().await.unwrap();
    client
}

async fn answer(client: &mut Client, endpoint: &str) -> Value {
    client.json(&format!("/pulse/api/{endpoint}")).await
}

async fn count_warnings(client: &mut Client, text: &str) -> usize {
    let health = answer(client, "health").await;
    let warnings = health["warnings"].as_array().unwrap().iter();
    warnings
        .filter(|warning| warning.as_str().unwrap().contains(text))
        .count()
}

fn home() -> Router {
    Router::new().route("/", get(|| async { "home" }))
}

#[tokio::test]
async fn advice_shows_how_to_name_files_without_a_route() {
    for is_nested in [false, true] {
        let (pulse, _manual_clock) = pulse();
        let files = ServeDir::new(env!("CARGO_MANIFEST_DIR"));
        let (app, path) = match is_nested {
            true => (home().nest_service("/files", files), "/files/Cargo.toml"),
            false => (home().fallback_service(files), "/Cargo.toml"),
        };
        let app = app.layer(pulse.layer());
        let mut client = served(&pulse, app, &["/", path, path, "/missing"]).await;
        assert_eq!(count_warnings(&mut client, "named(\"static\")").await, 1);
        let overview = answer(&mut client, "overview?window=hour").await;
        let advice = &overview["advice"];
        let text = advice["text"].as_str().unwrap();
        assert!(text.contains("has no route: give it a name"), "{text}");
        assert_eq!(advice["code"].as_str().unwrap().lines().count(), 3);
        for window in ["", "&window=15m"] {
            let path = format!("path?context=%3Cunmatched%3E{window}");
            let unmatched = answer(&mut client, &path).await;
            assert_eq!(unmatched["advice"], Value::from(vec![advice.clone()]));
        }
        let home = answer(&mut client, "path?context=GET%20%2F&window=hour").await;
        assert_eq!(home["advice"], Value::Array(Vec::new()));
    }
}

#[tokio::test]
async fn files_with_a_name_need_no_advice() {
    let (pulse, manual_clock) = pulse();
    let files = ServeDir::new(env!("CARGO_MANIFEST_DIR"));
    let files = ServiceBuilder::new()
        .layer(pulse.layer().named("static"))
        .service(files);
    let app = home().nest_service("/files", files).layer(pulse.layer());
    let paths = ["/", "/files/Cargo.toml", "/missing", "/missing"];
    let mut client = served(&pulse, app, &paths).await;
    manual_clock.advance(Duration::from_secs(20));
    let none = Value::Array(Vec::new());
    assert_eq!(answer(&mut client, "health").await["warnings"], none);
    assert_eq!(answer(&mut client, "overview").await["advice"], Value::Null);
    let unmatched = answer(&mut client, "path?context=%3Cunmatched%3E").await;
    assert_eq!(unmatched["advice"], none);
    let files = answer(&mut client, "path?context=static").await;
    assert_eq!(files["outcomes"]["2xx"], 1);
}

#[tokio::test]
async fn health_warns_of_a_layer_before_the_routes_after_ten_seconds() {
    for paths in [&["/", "/"][..], &["/", "/favicon.ico"]] {
        let (pulse, manual_clock) = pulse();
        let app = Router::new().layer(pulse.layer()).merge(home());
        let mut client = served(&pulse, app, paths).await;
        assert_eq!(count_warnings(&mut client, "after all routes").await, 0);
        manual_clock.advance(Duration::from_secs(10));
        assert_eq!(count_warnings(&mut client, "after all routes").await, 1);
        assert_eq!(
            count_warnings(&mut client, "an axum other than 0.8").await,
            1
        );
        let advice = &answer(&mut client, "overview?window=hour").await["advice"];
        // This layer gets only requests without a route. While nothing is recorded, the API gives no advice: the
        // dashboard then shows advice of its own.
        let is_recorded = paths.contains(&"/favicon.ico");
        assert_eq!(advice.is_object(), is_recorded, "{advice}");
    }
    let (pulse, manual_clock) = pulse();
    let mut client = served(&pulse, home().layer(pulse.layer()), &["/"]).await;
    manual_clock.advance(Duration::from_secs(10));
    assert_eq!(count_warnings(&mut client, "after all routes").await, 0);
}

/// A fallback service hides its routes from the layer, as another version of axum does.
#[tokio::test]
async fn unseen_routes_get_advice_about_the_axum_version() {
    let (pulse, _manual_clock) = pulse();
    let around = ServiceBuilder::new().layer(pulse.layer()).service(home());
    let app = Router::new().fallback_service(around);
    let mut client = served(&pulse, app, &["/", "/"]).await;
    assert_eq!(count_warnings(&mut client, "axum 0.8").await, 1);
}

#[tokio::test]
async fn many_cancelled_requests_get_advice_about_the_order_of_layers() {
    let (pulse, _manual_clock) = pulse();
    let (status, after) = (StatusCode::SERVICE_UNAVAILABLE, Duration::from_millis(20));
    let slow = || tokio::time::sleep(Duration::from_secs(3_600));
    let app = home()
        .route("/slow", get(slow))
        .layer(pulse.layer())
        .layer(TimeoutLayer::with_status_code(status, after));
    let mut client = served(&pulse, app, &["/", "/slow"]).await;
    for window in ["", "&window=hour"] {
        let slow = answer(&mut client, &format!("path?context=GET%20%2Fslow{window}")).await;
        let advice = &slow["advice"][0];
        let [text, code] = ["text", "code"].map(|part| advice[part].as_str().unwrap());
        assert!(text.contains("a timeout around the layer"), "{text}");
        assert!(code.ends_with(".layer(pulse.layer())"), "{code}");
        let home = answer(&mut client, &format!("path?context=GET%20%2F{window}")).await;
        assert_eq!(home["advice"], Value::Array(Vec::new()));
    }
}
