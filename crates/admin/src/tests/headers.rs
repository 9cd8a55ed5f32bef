//! Methods, errors, bodies and ETags. `send` checks the headers that every response has.

use http::Method;

use super::*;

#[tokio::test]
async fn only_get_and_head_are_served() {
    let bench = bench();
    for method in [
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::OPTIONS,
        Method::PATCH,
    ] {
        for uri in [
            "/",
            "/api/paths",
            "/assets/app.css",
            #[cfg(feature = "prometheus")]
            "/metrics",
        ] {
            let mut request = request(uri);
            *request.method_mut() = method.clone();
            let answered = send(&bench.router, request).await;
            assert_eq!(answered.status, 405, "{method} {uri}");
            assert_eq!(answered.header("allow"), "GET, HEAD");
            assert!(answered.json()["error"].is_string());
        }
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let bench = bench();
    for uri in ["/", "/api/paths", "/assets/app.css", "/nothing"] {
        let full = get(&bench.router, uri).await;
        let mut request = request(uri);
        *request.method_mut() = Method::HEAD;
        let head = send(&bench.router, request).await;
        assert_eq!(
            (head.status, head.body.as_str()),
            (full.status, ""),
            "{uri}"
        );
        let mut headers = head.headers.clone();
        headers.remove("content-length");
        assert_eq!(headers, full.headers, "{uri}");
        assert_eq!(head.header("content-length"), full.length.to_string());
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
        let answered = get(&bench.router, uri).await;
        assert_eq!(answered.status, 404, "{uri}");
        assert!(answered.json()["error"].is_string());
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
        let mut request = request(uri);
        let value = etags.parse().expect("a header");
        request.headers_mut().insert("if-none-match", value);
        send(&bench.router, request).await
    };
    for (uri, cache) in [("/api/paths", "no-store"), ("/assets/app.js", "no-cache")] {
        let first = get(&bench.router, uri).await;
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
            assert_eq!(
                (again.status.as_u16(), again.body.as_str()),
                (304, ""),
                "{condition}"
            );
            assert_eq!(again.header("etag").trim_start_matches("W/"), etag);
            assert_eq!(again.header("cache-control"), cache);
        }
        assert_eq!(ask(uri, "\"other\", nonsense").await.status, 200);
    }
    // An error has no ETag.
    assert_eq!(ask("/api/paths?limit=x", "*").await.status, 400);
}

#[tokio::test]
async fn content_types_are_set() {
    let bench = bench();
    for (uri, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/assets/app.css?v=1", "text/css; charset=utf-8"),
        ("/assets/app.js", "text/javascript; charset=utf-8"),
        ("/api/health", "application/json"),
    ] {
        assert_eq!(
            get(&bench.router, uri).await.header("content-type"),
            content_type
        );
    }
}

#[tokio::test]
async fn head_and_errors_leave_a_connection_usable() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(axum::serve(listener, bench().router).into_future());
    let mut connection = tokio::net::TcpStream::connect(address).await.expect("up");
    let requests = "HEAD / HTTP/1.1\r\nhost: localhost\r\n\r\n\
                    GET /api/slowest HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nabc\
                    POST /api/slowest HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
                    HEAD /assets/app.css HTTP/1.1\r\nhost: localhost\r\n\r\n\
                    GET /api/counters?name=%zz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let sent = connection.write_all(requests.as_bytes()).await;
    sent.expect("sent");
    let mut answers = String::new();
    let read = connection.read_to_string(&mut answers).await;
    read.expect("five answers");
    let statuses: Vec<_> = answers
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| &answers[at + 9..at + 12])
        .collect();
    assert_eq!(statuses, ["200", "200", "405", "200", "400"], "{answers}");
    server.abort();
}
