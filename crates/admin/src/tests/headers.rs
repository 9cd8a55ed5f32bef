//! Methods, errors, bodies and ETags. `send` checks the headers that every response has.

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
    let bench = bench();
    for method in [Method::POST, Method::DELETE, Method::OPTIONS] {
        for uri in URIS {
            let answered = call(&bench.router, method.clone(), uri).await;
            assert_eq!(answered.status, 405, "{method} {uri}");
            assert_eq!(answered.header("allow"), "GET, HEAD");
            assert!(answered.json()["error"].is_string());
        }
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let bench = bench();
    for uri in URIS.iter().chain(&["/nothing"]) {
        let full = get(&bench.router, uri).await;
        let mut head = call(&bench.router, Method::HEAD, uri).await;
        assert_eq!((head.status, &*head.body), (full.status, ""), "{uri}");
        let length = head.headers.remove("content-length").expect("a length");
        assert_eq!(length, full.length.to_string().as_str());
        assert_eq!(head.headers, full.headers, "{uri}");
    }
}

#[tokio::test]
async fn unknown_paths_are_answered_in_json() {
    let bench = bench();
    for uri in [
        "/nothing",
        "/api",
        "/api/",
        "/api/paths/",
        "/assets/",
        "/assets/none.js",
        "/assets/index.html",
        "/assets/..%2fapp.css",
        "//",
        "/%",
    ] {
        error(&bench.router, uri, 404).await;
    }
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let bench = bench();
    for (size, status) in [(16 * 1024, 200), (16 * 1024 + 1, 413)] {
        let mut request = request("/api/overview");
        *request.body_mut() = Body::from(vec![b'x'; size]);
        assert_eq!(send(&bench.router, request).await.status, status);
    }
}

#[tokio::test]
async fn an_unchanged_answer_is_not_sent_again() {
    let bench = bench();
    let ask = async |uri: &str, etags: &str| {
        super::ask(&bench.router, uri, &[("if-none-match", etags)]).await
    };
    for (uri, cache, content_type) in [
        ("/api/paths", "no-store", "application/json"),
        (
            "/assets/app.js",
            "no-cache",
            "text/javascript; charset=utf-8",
        ),
    ] {
        let first = get(&bench.router, uri).await;
        assert_eq!(first.header("content-type"), content_type);
        let etag = first.header("etag");
        // The ETag is weak where the answer has `as_of`.
        let is_weak = uri.starts_with("/api/");
        assert_eq!(etag.starts_with("W/"), is_weak, "{etag}");
        let etag = etag.trim_start_matches("W/");
        assert!(etag.starts_with('"') && etag.len() == 34, "{etag}");
        assert_eq!(first.header("cache-control"), cache);
        for condition in [
            etag.to_owned(),
            format!("W/{etag}"),
            format!("\"a\" , {etag}"),
            "*".into(),
        ] {
            let again = ask(uri, &condition).await;
            let shown = (again.status.as_u16(), &*again.body);
            assert_eq!(shown, (304, ""), "{condition}");
            assert_eq!(again.header("etag").trim_start_matches("W/"), etag);
            assert_eq!(again.header("cache-control"), cache);
        }
        assert_eq!(ask(uri, "\"other\", nonsense").await.status, 200);
    }
    // An error has no ETag.
    assert_eq!(ask("/api/paths?limit=x", "*").await.status, 400);
}
