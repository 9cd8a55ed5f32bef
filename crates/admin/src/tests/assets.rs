//! Tests of how browsers cache the dashboard and its files.

use super::super::assets::HASH;
use super::*;

#[tokio::test]
async fn a_file_is_kept_for_ever_only_under_the_current_hash() {
    let router = fixture().router;
    let current = format!("/assets/{}/app.js", *HASH);
    let kept = get(&router, &current).await;
    assert_eq!(kept.header("cache-control"), FOR_EVER);
    let content_type = "text/javascript; charset=utf-8";
    assert_eq!(kept.header("content-type"), content_type);
    // The last URL has the hash of another version, which is behind the same load balancer.
    for other in [
        "app.js",
        "app.js?v=0.1.0",
        "0123456789abcdef0123456789abcdef/app.js",
    ] {
        let other = format!("/assets/{other}");
        let answered = get(&router, &other).await;
        assert_eq!(answered.status, 200, "{other}");
        assert_eq!(answered.header("cache-control"), "no-cache", "{other}");
        assert_eq!(answered.body, kept.body, "{other}");
        assert_eq!(answered.header("etag"), kept.header("etag"), "{other}");
        let again = ask(&router, &other, &[("if-none-match", kept.header("etag"))]).await;
        assert_eq!(again.status, 304, "{other}");
        assert_eq!(again.header("cache-control"), "no-cache", "{other}");
    }
    // Browsers do not cache the dashboard's HTML, so they see its new URLs at once.
    let page = get(&router, "/").await;
    assert_eq!(page.header("cache-control"), "no-store");
    assert!(page.body.contains(&current[1..]));
}

#[tokio::test]
async fn files_are_compressed() {
    let router = fixture().router;
    let uri = format!("/assets/{}/app.css", *HASH);
    let full = get(&router, &uri).await;
    assert_eq!(full.header("content-encoding"), "gzip");
    assert_eq!(full.header("content-type"), "text/css; charset=utf-8");
    assert!(full.body.contains("color-scheme"));
    assert!(full.length < full.body.len() / 2, "{}", full.length);
    let known = ask(&router, &uri, &[("if-none-match", full.header("etag"))]).await;
    assert_eq!((known.status.as_u16(), known.length), (304, 0));
    assert_eq!(known.header("content-encoding"), "");
    assert_eq!(known.header("cache-control"), FOR_EVER);
}
