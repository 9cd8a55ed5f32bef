//! The ways to add the dashboard to a router, from the guide's page *Access*.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;

use crate::admin::serve;
use crate::rig::http::Client;

/// Whether the dashboard is served at a path. Loads the page, its files and an answer of the API, as a browser does.
async fn is_served(client: &mut Client, path: &str) -> bool {
    let page = client.get(path).await;
    if page.status == 404 {
        return false;
    }
    assert_eq!(page.status, 200, "{path}");
    let text = page.text();
    let (_, base) = text
        .split_once("name=\"pulse-base\" content=\"")
        .unwrap_or_else(|| panic!("{path}: {text}"));
    let (base, _) = base.split_once('"').unwrap();
    let folder = &path[..=path.rfind('/').unwrap()];
    for file in ["assets/app.js", "api/overview"] {
        let file = format!("{folder}{base}{file}");
        let answer = client.get(&file).await;
        assert_eq!(answer.status, 200, "{file}");
    }
    true
}

#[tokio::test]
async fn the_guide_says_which_ways_serve_the_dashboard() {
    let guide = include_str!("../../src/guide/access.md");
    type Add = fn(Router<u8>, &Pulse) -> Router<u8>;
    let ways: [(&str, Add); 4] = [
        (
            ".merge(pulse.mount(\"/admin/pulse\", access))",
            |app, pulse| app.merge(pulse.mount("/admin/pulse", Access::open())),
        ),
        (
            ".nest_service(\"/admin/pulse\", pulse.router(access))",
            |app, pulse| app.nest_service("/admin/pulse", pulse.router(Access::open())),
        ),
        (
            ".nest(\"/admin/pulse\", pulse.router(access))",
            |app, pulse| app.nest("/admin/pulse", pulse.router(Access::open())),
        ),
        (".nest_service(\"/pulse\", pulse.router(", |app, pulse| {
            let admin = Router::new().nest_service("/pulse", pulse.router(Access::open()));
            app.nest("/admin", admin)
        }),
    ];
    for (way, add) in ways {
        let row = guide.lines().find(|line| line.contains(way));
        let row = row.unwrap_or_else(|| panic!("the guide lacks {way}"));
        let pulse = Pulse::builder().build().unwrap();
        let home = |State(number): State<u8>| async move { number.to_string() };
        let app = Router::new().route("/", get(home));
        let app = add(app, &pulse).layer(pulse.layer()).with_state(7);
        let mut client = Client::connect(serve(app).await).await;
        assert!(is_served(&mut client, "/admin/pulse").await, "{way}");
        let with_slash = is_served(&mut client, "/admin/pulse/").await;
        assert_eq!(with_slash, !row.ends_with("404 |"), "{way}");
        let recorded = || pulse.health().recording.recorded;
        assert_eq!(client.get("/").await.status, 200);
        pulse.flush().await.unwrap();
        // Only the request for `/`, and the request that no route matched, are recorded.
        assert_eq!(recorded(), 1 + u64::from(!with_slash), "{way}");
        pulse.shutdown().await.unwrap();
    }
}
