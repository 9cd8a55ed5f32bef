//! The settings of a dashboard.

use std::time::Duration;

use tower_pulse::admin::Access;
use tower_pulse::{Builder, Dashboard, DashboardBuilder, Pulse};

use crate::rig::asking;

type Configure<B> = fn(B) -> B;

/// The name of each setting, and two functions that set it: for an instance, and for a dashboard.
macro_rules! both {
    ($($field:ident($($value:expr),+)),+ $(,)?) => {
        [$((
            stringify!($field),
            (|b| b.$field($($value),+)) as Configure<Builder>,
            (|b| b.$field($($value),+)) as Configure<DashboardBuilder>,
        )),+]
    };
}

#[test]
fn settings_are_refused_with_the_errors_of_an_instance() {
    let cases = both![
        redis("http://127.0.0.1/"),
        prefix("a\n"),
        service(""),
        precisions([]),
        retained_slices(0),
        target(Duration::ZERO),
        target_for("GET /", Duration::ZERO, 0.9),
        trace_url("ftp://traces.example.com/{trace_id}"),
        redis_connection_timeout(Duration::ZERO),
        redis_response_timeout(Duration::MAX),
    ];
    let url = "redis://127.0.0.1/";
    for (field, of_instance, of_dashboard) in cases {
        let expected = of_instance(Pulse::builder().redis(url)).build_with_tasks();
        let refused = of_dashboard(Dashboard::builder().redis(url))
            .build()
            .unwrap_err();
        assert_eq!(refused.field(), field);
        assert_eq!(refused.to_string(), expected.unwrap_err().to_string());
    }
    let refused = Dashboard::builder().build().unwrap_err();
    let says = "redis is missing: give the URL of the Redis that the instances";
    assert!(refused.to_string().starts_with(says), "{refused}");
}

#[tokio::test]
async fn the_page_has_the_url_of_traces() {
    let url = "https://traces.example.com/{trace_id}";
    let dashboard = Dashboard::builder().redis("redis://127.0.0.1:1/");
    let dashboard = dashboard.trace_url(url).build().unwrap();
    let (_, page) = asking::text(&dashboard.router(Access::open()), "/").await;
    let config = format!("&quot;trace_url&quot;:&quot;{url}&quot;");
    assert!(page.contains(&config), "{page}");
}

#[tokio::test]
async fn dashboards_of_one_builder_count_wrong_credentials_separately() {
    let builder = Dashboard::builder().redis("redis://127.0.0.1:1/");
    let access = || Access::token("Jh7kQ2mVb9xTz4Lp");
    let [first, second] = [(); 2].map(|()| builder.clone().build().unwrap().router(access()));
    let wrong = [("authorization", "Bearer wrong")];
    let refused = asking::send(&first, "GET", "/metrics", &wrong, "").await;
    assert_eq!(refused.status, http::StatusCode::UNAUTHORIZED);
    let right = [("authorization", "Bearer Jh7kQ2mVb9xTz4Lp")];
    for (router, count) in [(first, 1), (second, 0)] {
        let metrics = asking::send(&router, "GET", "/metrics", &right, "").await;
        let line = format!("pulse_wrong_credentials_total {count}\n");
        assert!(metrics.text.contains(&line), "{}", metrics.text);
    }
}

#[test]
fn an_invalid_path_or_token_is_an_error() {
    // A dashboard has no task, so it needs no runtime.
    let dashboard = Dashboard::builder().redis("redis://127.0.0.1/");
    let dashboard = dashboard.build().unwrap();
    let refused = dashboard.try_mount::<()>("pulse", Access::open());
    assert_eq!(refused.unwrap_err().field(), "mount");
    let refused = dashboard.try_mount::<u8>("/pulse", Access::token(""));
    assert!(refused.is_err());
    let _: axum::Router<String> = dashboard.router(Access::open());
}
