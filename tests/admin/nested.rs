//! The ways to add the dashboard to a router, from the guide's page *Access*.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;

use crate::admin::serve;
use crate::rig::http::Client;

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
        let with_slash = if row.ends_with("404 |") { 404 } else { 200 };
        for (path, status) in [
            ("/admin/pulse", 200),
            ("/admin/pulse/", with_slash),
            ("/admin/pulse/api/overview", 200),
            ("/", 200),
        ] {
            assert_eq!(client.get(path).await.status, status, "{way} {path}");
        }
        pulse.flush().await.unwrap();
        // Requests to the dashboard are not recorded, but requests to an `/admin/pulse/` without a route are.
        let recorded = pulse.health().recording.recorded;
        assert_eq!(recorded, 1 + u64::from(with_slash == 404), "{way}");
    }
}
