//! Mount points, and the dashboard's relative URLs below them.

use axum::routing::get as handler;

use super::super::{Permission, mounted};
use super::*;

/// Panics unless the dashboard at a URL has this base for its relative URLs. `tests/browser` loads these URLs.
async fn assert_base(router: &Router, uri: &str, base: &str) {
    let page = get(router, uri).await;
    assert_eq!(page.status, 200, "{uri}");
    let base = format!("content=\"{base}\"");
    assert!(page.body.contains(&base), "{uri}: {}", page.body);
    assert!(!page.body.contains("{{"));
}

fn mount(path: &str) -> Router {
    mounted(source(), Access::open(), path).expect("a valid path")
}

#[tokio::test]
async fn the_router_can_be_merged_or_served_alone() {
    let merged = Router::new()
        .route("/", handler(|| async { "home" }))
        .merge(mount("/admin/pulse"))
        .fallback(|| async { "mine" });
    assert_base(&merged, "/admin/pulse", "pulse/").await;
    assert_base(&merged, "/admin/pulse/", "").await;
    assert_eq!(get(&merged, "/admin/pulse/nothing").await.status, 404);
    for elsewhere in ["/", "/admin", "/admin/pulsed"] {
        let response = merged.clone().oneshot(request(elsewhere)).await;
        let response = response.expect("infallible");
        let is_recorded = response.extensions().get::<Unrecorded>().is_none();
        assert!(is_recorded, "{elsewhere}");
        assert_eq!(response.status(), 200, "{elsewhere}");
    }

    let deep = Router::new().nest("/a", Router::new().nest("/b", mount("/c")));
    assert_base(&deep, "/a/b/c", "c/").await;
    assert_base(&deep, "/a/b/c/", "").await;
    // "a:b/" alone would be a URL of the scheme "a".
    assert_base(&mount("/a:b"), "/a:b", "./a:b/").await;

    assert_base(&fixture().router, "/", "").await;
}

#[test]
fn invalid_mount_paths_are_refused() {
    for path in [
        "", "/", "//", "pulse", "/pulse/", "/a//b", "/{id}", "/a}", "/:a", "/a/*b", "/a b", "/a?b",
        "/a#b", "/../a", "/.", "/ü", "/a\n",
    ] {
        let mounted = mounted::<()>(source(), Access::open(), path);
        let error = mounted.expect_err(path);
        assert_eq!(error.field(), "mount");
        // A user who nests `mount("/", …)` gets a panic with this text.
        let text = error.to_string();
        let value = format!("mount is {path:?}: must be a path such as \"/admin/pulse\"");
        let way = "To nest, use `router`: .nest_service(\"/admin/pulse\", pulse.router(access))";
        assert!(text.starts_with(&value) && text.ends_with(way), "{text}");
    }
    for path in ["/pulse", "/admin/pulse", "/a-b_c.d/~e/%20", "/a:b*"] {
        let _ = mount(path);
    }
}

async fn title_and_config(source: Source, access: Access) -> (String, Value) {
    let router = router(source, access).expect("no secret");
    let page = get(&router, "/").await.body;
    let part = |from: &str, to: &str| {
        let (_, after) = page.split_once(from).expect(from);
        let (part, _) = after.split_once(to).expect(to);
        let part = part.replace("&lt;", "<").replace("&quot;", "\"");
        part.replace("&#39;", "'").replace("&amp;", "&")
    };
    let config = part("<meta name=\"pulse-config\" content=\"", "\"");
    let config = serde_json::from_str(&config).expect("JSON");
    (part("<title>", "</title>"), config)
}

#[tokio::test]
async fn the_dashboard_knows_who_may_write_and_who_has_no_name() {
    let mut dashboard = source();
    dashboard.instance = None;
    let ada = Permission::write().named("ada");
    for (source, permission, may_write, asks_name) in [
        (source(), Permission::write(), true, true),
        (source(), ada, true, false),
        (source(), Permission::read(), false, false),
        (dashboard, Permission::write(), false, true),
    ] {
        let access = Access::custom(move |_| permission.clone());
        let (_, config) = title_and_config(source, access).await;
        assert_eq!(config["may_write"], may_write);
        assert_eq!(config["asks_name"], asks_name);
    }
}

#[tokio::test]
async fn the_dashboard_has_the_configuration() {
    let (title, config) = title_and_config(source(), Access::open()).await;
    assert_eq!(title, "tower-pulse");
    let expected = serde_json::json!({
        "service": null,
        "version": null,
        "precisions": [1, 5, 60, 300, 3_600, 18_000, 86_400],
        "target": null,
        "trace_url": null,
        "is_instance": true,
        "may_write": true,
        "asks_name": true,
        "rankings": cfg!(feature = "rankings"),
        "row_cache": cfg!(feature = "row-cache"),
        "enough": { "requests": 20, "p99": 100 },
    });
    assert_eq!(config, expected);

    let targets = Targets {
        all: Some(Duration::from_millis(100)),
        ..Targets::default()
    };
    let mut source = source_of(targets, health);
    source.service = Some("a \"shop\" <&'b".to_owned());
    source.app_version = Some("1.4.2".into());
    // Text that looks like a placeholder of the HTML stays as it is.
    let url = "https://traces.example.com/{trace_id}?a={{base}}&b='\"";
    source.trace_url = Some(url.to_owned());
    let (title, config) = title_and_config(source, Access::open()).await;
    assert_eq!(title, "a \"shop\" <&'b 1.4.2 · tower-pulse");
    assert_eq!(config["service"], "a \"shop\" <&'b");
    assert_eq!(config["version"], "1.4.2");
    assert_eq!(config["target"], 0.1);
    assert_eq!(config["trace_url"], url);
}
