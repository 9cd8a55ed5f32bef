//! Requests that name a host which is not allowed are refused. Otherwise another site could point its own name at this
//! service, and read the service from a visitor's browser (DNS rebinding).

use axum::Router;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;

use crate::admin::client_of;
use crate::rig::http::{Client, Response};
use crate::rig::log::Log;

async fn served(access: Access) -> Client {
    client_of(&Pulse::builder().build().unwrap(), access).await
}

const HEALTH: &str = "/pulse/api/health?part=status";
const ALLOWED: &str = "127.0.0.1:3000 10.1.2.3 192.168.1.7:80 [::1]:3000 [fe80::1%25eth0] [2001:db8::7] 127.0.0.1. \
    localhost LocalHost:3000 localhost. shop.localhost:8080 0.0.0.0:3000 [::ffff:127.0.0.1]:1";
const BAD: &str = "evil.example evil.example:3000 pulse.internal.evil.example notlocalhost localhost.evil.example \
    127.0.0.1.evil.example 127.0.0.1@evil.example evil.example@127.0.0.1 1.2.3 256.1.1.1 [::1].evil.example \
    [evil.example] [::1 ::1 localhost:80:80 localhost:x localhost.. .localhost";
/// Refused hosts that do not fit into a list separated by spaces.
const MORE_BAD: [&str; 2] = ["pulse internal", ""];

async fn ask(client: &mut Client, method: &str, path: &str, host: &str) -> Response {
    // A caller can invent the last two headers, so they must not change the host.
    let headers = [
        ("host", host),
        ("x-forwarded-host", "localhost"),
        ("forwarded", "host=localhost"),
    ];
    client.request(method, path, &headers, "").await
}

fn assert_refused(host: &str, answer: &Response) {
    assert_eq!(answer.status, 403, "{host}");
    let error = answer.json()["error"].as_str().unwrap().to_owned();
    let explains = error.contains("allow_host") || error.contains("not a valid host");
    assert!(explains, "{error}");
    assert!(error.len() < 600, "{error}");
}

#[tokio::test]
async fn an_open_router_answers_addresses_and_localhost_only() {
    let mut client = served(Access::open()).await;
    for host in ALLOWED.split(' ') {
        let answer = ask(&mut client, "GET", HEALTH, host).await;
        assert_eq!(answer.status, 200, "{host}");
    }
    for host in BAD.split(' ').chain(MORE_BAD) {
        for (method, path) in [
            ("GET", HEALTH),
            ("GET", "/pulse/api/screen?ask=health"),
            ("GET", "/pulse/api/nothing"),
            ("POST", "/pulse/api/marks"),
            ("POST", "/pulse/"),
            ("POST", "/pulse/assets/app.js"),
        ] {
            assert_refused(host, &ask(&mut client, method, path, host).await);
        }
        // The dashboard itself is served, to explain the refusal.
        let page = ask(&mut client, "GET", "/pulse/", host).await;
        assert_eq!(page.status, 200, "{host}");
    }
    let two = [("host", "localhost"), ("host", "evil.example")];
    let answer = client.request("GET", HEALTH, &two, "").await;
    assert!([400, 403].contains(&answer.status), "{}", answer.status);
    let absolute = format!("http://evil.example{HEALTH}");
    let answer = ask(&mut client, "GET", &absolute, "localhost").await;
    assert_refused("an absolute URL", &answer);
    let refused = ask(&mut client, "GET", HEALTH, "Pulse.Internal:80").await;
    let error = refused.json()["error"].to_string();
    let advice = r#"allow_host(\"pulse.internal\")"#;
    assert!(error.contains(advice), "{error}");
}

#[tokio::test]
async fn a_named_host_is_answered() {
    let access = Access::open()
        .allow_host("Pulse.Internal.")
        .allow_host("shop_admin:3000");
    let mut client = served(access).await;
    let named = "pulse.internal PULSE.internal:8443 pulse.internal. shop_admin localhost 10.0.0.1";
    for host in named.split(' ') {
        let answer = ask(&mut client, "GET", HEALTH, host).await;
        assert_eq!(answer.status, 200, "{host}");
    }
    let others = "internal x.pulse.internal pulse.internal.evil.example pulse.internal..";
    for host in others.split(' ') {
        assert_refused(host, &ask(&mut client, "GET", HEALTH, host).await);
    }
}

#[tokio::test]
async fn custom_access_and_allow_any_host_answer_every_host() {
    for access in [
        Access::open().allow_any_host(),
        Access::custom(|_| true),
        Access::custom_async(|_| async { true }),
    ] {
        let mut client = served(access).await;
        for host in ALLOWED.split(' ').chain(BAD.split(' ')).chain(MORE_BAD) {
            let answer = ask(&mut client, "GET", HEALTH, host).await;
            assert_ne!(answer.status, 403, "{host}");
        }
    }
}

#[tokio::test]
async fn an_invalid_host_is_refused_at_the_start() {
    let pulse = Pulse::builder().build().unwrap();
    let long = "x".repeat(254);
    let bad = "https://pulse.internal pulse.internal/ *.internal a..b bücher.example [::1 a:b";
    for host in bad.split(' ').chain(["", " ", "a b", &long]) {
        let access = Access::open().allow_host(host);
        let error = pulse.try_mount::<()>("/pulse", access).unwrap_err();
        assert_eq!(error.field(), "allow_host");
        let text = error.to_string();
        assert!(text.contains("pulse.internal"), "{text}");
    }
    let good = "pulse.internal 10.0.0.1 [::1]:80 ::1 xn--bcher-kva.example shop";
    for host in good.split(' ') {
        let access = Access::open().allow_host(host);
        assert!(pulse.try_mount::<()>("/pulse", access).is_ok(), "{host}");
    }
}

#[tokio::test]
async fn the_start_warns_of_an_open_router() {
    let (log, _logging) = Log::start();
    let pulse = Pulse::builder().build().unwrap();
    for access in [
        Access::token("secret"),
        Access::basic("ops", "secret"),
        Access::custom(|_| true),
        Access::open().allow_any_host(),
    ] {
        let _router: Router = pulse.router(access);
    }
    assert_eq!(log.lines_with("open to everyone"), Vec::<String>::new());
    let _routers = (
        pulse.router::<()>(Access::open()),
        pulse.mount::<()>("/pulse", Access::open().allow_host("shop")),
    );
    let lines = log.lines_with("open to everyone");
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        let warns = line.contains("WARN") && line.contains("allow_any_host");
        assert!(warns, "{line}");
    }
}
