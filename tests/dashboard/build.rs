//! A dashboard refuses the same settings as an instance, with the same errors.

use std::time::Duration;

use tower_pulse::admin::Access;
use tower_pulse::{Builder, Dashboard, DashboardBuilder, Pulse};

use crate::rig::asking;

type Configure<B> = fn(B) -> B;

/// Each field's name, with a function that sets the field for either builder.
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
fn fields_are_checked_as_those_of_an_instance() {
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
async fn its_page_links_traces() {
    let url = "https://traces.example.com/{trace_id}";
    let dashboard = Dashboard::builder().redis("redis://127.0.0.1:1/");
    let dashboard = dashboard.trace_url(url).build().unwrap();
    let (_, page) = asking::text(&dashboard.router(Access::open()), "/").await;
    let config = format!("&quot;trace_url&quot;:&quot;{url}&quot;");
    assert!(page.contains(&config), "{page}");
}

#[tokio::test]
async fn dashboards_of_one_builder_count_wrong_credentials_apart() {
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
fn a_path_that_cannot_work_is_an_error() {
    // No runtime is needed, as there is no task.
    let dashboard = Dashboard::builder().redis("redis://127.0.0.1/");
    let dashboard = dashboard.build().unwrap();
    let refused = dashboard.try_mount::<()>("pulse", Access::open());
    assert_eq!(refused.unwrap_err().field(), "mount");
    let refused = dashboard.try_mount::<u8>("/pulse", Access::token(""));
    assert!(refused.is_err());
    let _: axum::Router<String> = dashboard.router(Access::open());
}
