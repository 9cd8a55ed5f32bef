//! A dashboard refuses what an instance refuses, with the same words.

use std::time::Duration;

use http_body_util::BodyExt;
use tower::ServiceExt;
use tower_pulse::{Builder, Dashboard, DashboardBuilder, Pulse};

type Configure<B> = fn(B) -> B;

/// A name of a field with its setting by each builder.
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
    assert_eq!(
        refused.to_string(),
        "redis is missing: give the URL of the Redis that the instances of the service write to"
    );
}

#[tokio::test]
async fn its_page_links_traces() {
    let url = "https://traces.example.com/{trace_id}";
    let dashboard = Dashboard::builder().redis("redis://127.0.0.1:1/");
    let dashboard = dashboard.trace_url(url).build().unwrap();
    let app: axum::Router = dashboard.mount("/pulse", tower_pulse::admin::Access::open());
    let request = http::Request::get("/pulse/").body(axum::body::Body::empty());
    let response = app.oneshot(request.unwrap()).await.unwrap();
    let page = response.into_body().collect().await.unwrap().to_bytes();
    let page = String::from_utf8(page.to_vec()).unwrap();
    let config = format!("&quot;trace_url&quot;:&quot;{url}&quot;");
    assert!(page.contains(&config), "{page}");
}

#[test]
fn a_path_that_cannot_work_is_an_error() {
    use tower_pulse::admin::Access;
    // No runtime is needed, as there is no task.
    let dashboard = Dashboard::builder()
        .redis("redis://127.0.0.1/")
        .build()
        .unwrap();
    let refused = dashboard
        .try_mount::<()>("pulse", Access::open())
        .unwrap_err();
    assert_eq!(refused.field(), "mount");
    assert!(
        dashboard
            .try_mount::<u8>("/pulse", Access::token(""))
            .is_err()
    );
    let _: axum::Router<String> = dashboard.router(Access::open());
}
