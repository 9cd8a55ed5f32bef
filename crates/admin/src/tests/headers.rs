//! Methods, errors, bodies and ETags. `send` checks the headers that every response has.

use super::super::assets::HASH;
use super::*;

const URIS: &[&str] = &[
    "/",
    "/api/paths",
    "/assets/app.css",
    #[cfg(feature = "prometheus")]
    "/metrics",
];

#[tokio::test]
async fn only_get_and_head_are_served() {
    let fixture = fixture();
    for method in [Method::POST, Method::DELETE, Method::OPTIONS] {
        for uri in URIS {
            let answered = call(&fixture.router, method.clone(), uri).await;
            assert_eq!(answered.status, 405, "{method} {uri}");
            assert_eq!(answered.header("allow"), "GET, HEAD");
            assert!(answered.json()["error"].is_string());
        }
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let fixture = fixture();
    for uri in URIS.iter().chain(&["/nothing"]) {
        let full = get(&fixture.router, uri).await;
        let mut head = call(&fixture.router, Method::HEAD, uri).await;
        assert_eq!((head.status, &*head.body), (full.status, ""), "{uri}");
        let length = head.headers.remove("content-length").expect("a length");
        assert_eq!(length, full.length.to_string().as_str());
        assert_eq!(head.headers, full.headers, "{uri}");
    }
}

#[tokio::test]
async fn unknown_paths_are_answered_in_json() {
    let router = fixture().router;
    let paths = "/nothing /api /api/ /api/paths/ // /% /assets/ /assets/0.1.0/app.js";
    for path in paths.split(' ') {
        error(&router, path, 404).await;
    }
    for folder in ["/assets/".to_owned(), format!("/assets/{}/", *HASH)] {
        for file in "none.js index.html app.js/ app.js/app.js ..%2fapp.css".split(' ') {
            error(&router, &format!("{folder}{file}"), 404).await;
        }
    }
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let fixture = fixture();
    for (size, status) in [(16 * 1024, 200), (16 * 1024 + 1, 413)] {
        let mut request = request("/api/overview");
        *request.body_mut() = Body::from(vec![b'x'; size]);
        assert_eq!(send(&fixture.router, request).await.status, status);
    }
}

#[tokio::test]
async fn an_unchanged_answer_is_not_sent_again() {
    let fixture = fixture();
    let ask = async |uri: &str, etags: &str| {
        super::ask(&fixture.router, uri, &[("if-none-match", etags)]).await
    };
    let first = get(&fixture.router, "/api/paths").await;
    assert_eq!(first.header("cache-control"), "no-store");
    // The ETag is weak, because the answer has `as_of`.
    let weak = first.header("etag");
    let etag = weak.strip_prefix("W/").expect(weak);
    assert!(etag.starts_with('"') && etag.len() == 34, "{etag}");
    for etags in [etag, weak, &format!("\"a\" , {etag}"), "*"] {
        let again = ask("/api/paths", etags).await;
        assert_eq!((again.status.as_u16(), again.length), (304, 0), "{etags}");
        assert_eq!(again.header("etag"), weak);
        assert_eq!(again.header("cache-control"), "no-store");
    }
    let changed = ask("/api/paths", "\"other\", nonsense").await;
    assert_eq!(changed.status, 200);
    // An error has no ETag.
    assert_eq!(ask("/api/paths?limit=x", "*").await.status, 400);
}
