//! Whether the rig notices what it must not miss: each kind of complaint, on a page that gives cause for it.

use axum::Router;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::routing::get;
use pulse_browser::emulation::{Media, Size};
use pulse_browser::page::Page;

const POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'";

const BODY: &str = "<!doctype html><html lang=en><meta name=viewport content='width=device-width'><title>t</title>
    <link rel=icon href='data:,'><script src=/page.js></script>
    <body data-ready=true data-screen=one><main><h1>heading</h1><button id=b>press</button><input id=i aria-label=input>
    <p id=p>text</p></main>";

const SCRIPT: &str = "addEventListener('DOMContentLoaded', () => {
    b.onclick = () => { p.textContent = 'pressed'; };
    i.onkeydown = (event) => { p.textContent = `${event.key} ${event.code}`; };
});";

/// Serves the page, with the policy of the crate's own page.
async fn serve() -> String {
    let page = (
        [
            (CONTENT_TYPE, "text/html"),
            (CONTENT_SECURITY_POLICY, POLICY),
        ],
        BODY,
    );
    let lax = ([(CONTENT_TYPE, "text/html")], BODY);
    let script = ([(CONTENT_TYPE, "text/javascript")], SCRIPT);
    let app = Router::new()
        .route("/", get(|| async { page }))
        .route("/lax", get(|| async { lax }))
        .route("/api/screen", get(|| async { "{}" }))
        .route("/page.js", get(|| async { script }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

#[tokio::test]
async fn sizes_and_preferences_are_emulated() {
    let page = Page::open(&serve().await).await;
    assert_eq!(
        page.eval::<(i64, i64)>("[innerWidth, innerHeight]").await,
        (1280, 900)
    );
    page.resize(Size::PHONE).await;
    assert_eq!(
        page.eval::<(i64, i64)>("[innerWidth, innerHeight]").await,
        (390, 844)
    );
    let matches = async |query: &str| {
        page.eval::<bool>(&format!("matchMedia('({query})').matches"))
            .await
    };
    for (media, query) in [
        (Media::Light, "prefers-color-scheme: light"),
        (Media::Dark, "prefers-color-scheme: dark"),
        (Media::ForcedColors, "forced-colors: active"),
        (Media::ReducedMotion, "prefers-reduced-motion: reduce"),
    ] {
        page.prefer(media).await;
        assert!(matches(query).await, "{media:?}");
    }
    // The browser's network process takes its time to follow.
    page.set_offline(true).await;
    let fetched = "fetch('/api/screen').then(() => true, () => false)";
    page.until_value("the page is offline", fetched, |is_fetched: &bool| {
        !is_fetched
    })
    .await;
    page.set_offline(false).await;
    page.until_value("the page is online", fetched, |is_fetched: &bool| {
        *is_fetched
    })
    .await;
    page.tolerate("ERR_INTERNET_DISCONNECTED");
    page.end().await;
}

#[tokio::test]
async fn whatever_is_wrong_is_a_complaint() {
    let url = serve().await;
    for (script, complaint) in [
        ("console.error('broken', 1)", "console: broken 1"),
        ("console.warn('odd')", "console: odd"),
        (
            "setTimeout(() => { throw new Error('thrown') })",
            "Error: thrown",
        ),
        (
            "void Promise.reject(new Error('rejected'))",
            "Error: rejected",
        ),
        (
            "document.body.append(Object.assign(new Image(), {src: '/x.png'}))",
            "CSP report: img-src",
        ),
        (
            "document.body.insertAdjacentHTML('beforeend', '<i style=\"color:red\">')",
            "CSP report: style-src-attr",
        ),
        ("void fetch('/none')", "404"),
    ] {
        let page = Page::open(&url).await;
        assert_eq!(page.complaints().await, Vec::<String>::new());
        page.run(&format!("void ({script})")).await;
        let mut complaints = Vec::new();
        for _ in 0..100 {
            complaints = page.complaints().await;
            if complaints.iter().any(|text| text.contains(complaint)) {
                break;
            }
        }
        assert!(
            complaints.iter().any(|text| text.contains(complaint)),
            "{script}: {complaints:?}"
        );
        for complaint in complaints {
            page.tolerate(&complaint);
        }
        page.end().await;
    }
}

#[tokio::test]
async fn a_request_to_another_host_is_never_tolerated() {
    let page = Page::open(&format!("{}lax", serve().await)).await;
    page.run(
        "void document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}))",
    )
    .await;
    page.tolerate("");
    let complaint = "a request to another host: http://127.0.0.1:9/x.png";
    assert_eq!(page.complaints().await, [complaint]);
    let ending = tokio::spawn(page.end()).await;
    assert!(ending.is_err(), "the test must fail");
}

#[tokio::test]
async fn a_screen_that_nobody_can_read_is_a_violation() {
    let page = Page::open(&serve().await).await;
    assert!(
        page.violations().await.is_empty(),
        "{:?}",
        page.violations().await
    );
    page.run("void (p.style.color = '#ddd', p.style.background = '#fff')")
        .await;
    let violations = page.violations().await;
    assert_eq!(violations[0].id, "color-contrast", "{violations:?}");
    page.end().await;
}
