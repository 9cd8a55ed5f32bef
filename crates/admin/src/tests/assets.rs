//! How the page and its files are cached and compressed.

use http::Method;

use super::super::assets::hash;
use super::*;

#[tokio::test]
async fn a_file_is_kept_for_ever_under_the_hash_of_its_content_only() {
    let router = bench().router;
    let current = format!("/assets/{}/app.js", hash());
    let others = [
        "/assets/app.js".to_owned(),
        "/assets/app.js?v=0.1.0".to_owned(),
        // Of an instance with another version, behind the same load balancer.
        format!("/assets/{}/app.js", "0123456789abcdef".repeat(2)),
    ];
    let kept = get(&router, &current).await;
    assert_eq!(kept.header("cache-control"), FOR_EVER);
    for other in others {
        let answered = get(&router, &other).await;
        assert_eq!(answered.status, 200, "{other}");
        assert_eq!(answered.header("cache-control"), "no-cache", "{other}");
        assert_eq!(
            (&answered.body, answered.header("etag")),
            (&kept.body, kept.header("etag"))
        );
        let again = ask(&router, &other, &[("if-none-match", kept.header("etag"))]).await;
        assert_eq!(
            (again.status.as_u16(), again.header("cache-control")),
            (304, "no-cache")
        );
    }
    for unknown in ["none.js", "index.html", "app.js/", "../app.js"] {
        let uri = format!("/assets/{}/{unknown}", hash());
        assert_eq!(get(&router, &uri).await.status, 404, "{uri}");
    }
    assert_eq!(get(&router, "/assets/0.1.0/app.js").await.status, 404);
    // A page that is not kept names the files, so that a new version is seen at once.
    let page = get(&router, "/").await;
    assert_eq!(page.header("cache-control"), "no-store");
    assert!(page.body.contains(&current[1..]));
}

#[tokio::test]
async fn files_and_page_are_compressed_for_those_who_accept_it() {
    let router = bench().router;
    for uri in [
        "/",
        &format!("/assets/{}/app.css", hash()),
        "/assets/app.js",
    ] {
        let plain = get(&router, uri).await;
        assert_eq!(plain.header("content-encoding"), "", "{uri}");
        assert_eq!(plain.header("vary"), "accept-encoding", "{uri}");
        for accept in ["gzip", "br, gzip;q=0.5", "*"] {
            let compressed = ask(&router, uri, &[("accept-encoding", accept)]).await;
            assert_eq!(compressed.status, 200);
            assert_eq!(
                compressed.header("content-encoding"),
                "gzip",
                "{uri} {accept}"
            );
            assert_eq!(compressed.header("vary"), "accept-encoding");
            assert_eq!(
                compressed.header("content-type"),
                plain.header("content-type")
            );
            assert_eq!(
                compressed.header("cache-control"),
                plain.header("cache-control")
            );
            assert_eq!(compressed.body, plain.body);
            assert!(
                compressed.length < plain.length / 2,
                "{}",
                compressed.length
            );
        }
        for accept in ["br", "gzip;q=0", "identity, gzip;q=0.5", ""] {
            let answered = ask(&router, uri, &[("accept-encoding", accept)]).await;
            assert_eq!(
                (answered.headers, answered.body),
                (plain.headers.clone(), plain.body.clone())
            );
        }
        let mut head = request(uri);
        *head.method_mut() = Method::HEAD;
        let accept = "gzip".parse().expect("a header");
        head.headers_mut().insert("accept-encoding", accept);
        let head = send(&router, head).await;
        let full = ask(&router, uri, &[("accept-encoding", "gzip")]).await;
        assert_eq!(
            (head.length, head.header("content-length")),
            (0, &*full.length.to_string())
        );
        assert_eq!(head.header("content-encoding"), "gzip");
        assert_eq!(head.header("etag"), full.header("etag"));
    }
    // The API's answers differ each time, so compressing them would be work for each request.
    let answered = ask(&router, "/api/overview", &[("accept-encoding", "gzip")]).await;
    assert_eq!(answered.header("content-encoding"), "");
}

#[tokio::test]
async fn each_encoding_has_an_etag_of_its_own() {
    let router = bench().router;
    let uri = format!("/assets/{}/app.js", hash());
    let gzip = ("accept-encoding", "gzip");
    let plain = get(&router, &uri).await;
    let compressed = ask(&router, &uri, &[gzip]).await;
    let (of_plain, of_compressed) = (plain.header("etag"), compressed.header("etag"));
    assert_ne!(of_plain, of_compressed);
    for (headers, status) in [
        (&[("if-none-match", of_plain)][..], 304),
        (&[("if-none-match", of_compressed)], 200),
        (&[gzip, ("if-none-match", of_compressed)], 304),
        (&[gzip, ("if-none-match", of_plain)], 200),
    ] {
        let answered = ask(&router, &uri, headers).await;
        assert_eq!(answered.status, status, "{headers:?}");
        assert_eq!(answered.header("vary"), "accept-encoding");
        assert_eq!(answered.header("cache-control"), FOR_EVER);
        if status == 304 {
            assert_eq!(answered.header("content-encoding"), "");
        }
    }
}
