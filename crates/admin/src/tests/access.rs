use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;

use super::super::mounted;
use super::*;
use tower_pulse_core::condition::{Condition, texts};
use tower_pulse_core::health::Notices;

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn router_of(access: Access) -> Router {
    router(source(), access).expect("a secret or a rule")
}

async fn status(access: &Access, authorization: &str) -> u16 {
    let headers = [("authorization", authorization)];
    let answered = ask(&router_of(access.clone()), "/api/overview", &headers).await;
    if answered.status == 401 {
        let challenge = "Basic realm=\"tower-pulse\", charset=\"UTF-8\"";
        assert_eq!(answered.header("www-authenticate"), challenge);
        assert!(answered.json()["error"].is_string());
    }
    answered.status.as_u16()
}

async fn accepts_only<S: AsRef<str>>(access: Access, accepted: &[S], refused: &[S]) {
    for (authorizations, expected) in [(accepted, 200), (refused, 401)] {
        for authorization in authorizations.iter().map(AsRef::as_ref) {
            let status = status(&access, authorization).await;
            assert_eq!(status, expected, "{authorization}");
        }
    }
}

#[tokio::test]
async fn a_token_is_accepted_as_bearer_or_as_password() {
    let accepted = [basic("anyone", "s3:cret ü"), basic("", "s3:cret ü")];
    let refused = [basic("s3:cret ü", "")];
    accepts_only(Access::token("s3:cret ü"), &accepted, &refused).await;

    let accepted = ["Bearer s3cret", "bearer  s3cret"];
    let refused = [
        "Bearer s3cre",
        "Bearer s3crets",
        "Bearer",
        "Bearer ",
        "s3cret",
        "Digest s3cret",
        "Basic s3cret",
        "Basic !!",
        "",
    ];
    accepts_only(Access::token("s3cret"), &accepted, &refused).await;
    // A token from a file may end with a line break.
    accepts_only(Access::token("s3cret\n"), &accepted[..1], &[]).await;
}

#[tokio::test]
async fn a_read_only_token_may_read_but_not_write() {
    let access = Access::token("writes").read_only_token("reads\n");
    let accepted = ["Bearer reads", "Bearer writes", &basic("ada", "reads")];
    accepts_only(access.clone(), &accepted, &["Bearer read", "Bearer "]).await;

    let router = router_of(access);
    for (method, uri) in [
        (Method::POST, "/api/marks"),
        (Method::POST, "/api/changes"),
        (Method::DELETE, "/api/marks?id=1"),
    ] {
        let answer = async |token: &str| {
            let json = ("content-type", "application/json");
            let headers = [("authorization", token), json];
            ask_by(&router, method.clone(), uri, &headers).await
        };
        assert_ne!(answer("Bearer writes").await.status, 403, "{uri}");
        let refused = answer("Bearer reads").await;
        assert_eq!(refused.status, 403, "{uri}");
        let error = refused.json()["error"].to_string();
        assert!(error.contains("read-only"), "{error}");
    }
}

#[tokio::test]
async fn a_user_and_its_password_are_accepted() {
    let right = basic("ops", "pa:ss");
    let accepted = [right.trim_end_matches('=').to_owned(), right];
    let refused = [
        basic("ops", "pa"),
        basic("Ops", "pa:ss"),
        basic("", ""),
        "Bearer pa:ss".to_owned(),
    ];
    accepts_only(Access::basic("ops", "pa:ss"), &accepted, &refused).await;
}

#[tokio::test]
async fn two_authorization_headers_are_refused() {
    let headers = ["Bearer s3cret", "Bearer other"].map(|value| ("authorization", value));
    let router = router_of(Access::token("s3cret"));
    assert_eq!(ask(&router, "/", &headers).await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn an_asynchronous_rule_decides_in_time_or_is_unavailable() {
    let access = Access::custom_async(|parts| {
        let given = parts.headers.get(AUTHORIZATION).cloned();
        async move {
            match given.as_ref().and_then(|given| given.to_str().ok()) {
                Some("operator") => {
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    true
                }
                Some("stuck") => std::future::pending().await,
                _ => false,
            }
        }
    });
    for (given, expected) in [("operator", 200), ("visitor", 403), ("stuck", 503)] {
        assert_eq!(status(&access, given).await, expected, "{given}");
    }
}

#[tokio::test]
async fn a_refusal_does_not_reveal_which_paths_exist() {
    let router = router_of(Access::token("s3cret"));
    let mut bodies = std::collections::BTreeSet::new();
    for uri in [
        "/",
        "/api/paths?limit=x",
        "/api/screen?ask=health",
        "/api/screen",
        "/assets/app.js",
        "/metrics",
        "/nothing",
        "/..",
    ] {
        let answered = get(&router, uri).await;
        assert_eq!(answered.status, 401, "{uri}");
        bodies.insert(answered.body);
    }
    assert_eq!(bodies.len(), 1);
}

#[test]
fn empty_and_equal_secrets_are_refused_and_no_secret_is_printed() {
    for (access, named) in [
        (Access::token(""), "token"),
        (Access::token(" \t"), "token"),
        (Access::basic("ops", ""), "password"),
        (Access::basic("a:b", "x"), "colon"),
        (Access::token("a").read_only_token(" "), "read_only_token"),
        (Access::token("a").read_only_token("a\n"), "secret twice"),
        (
            Access::basic("a", "b").read_only_token("c"),
            "only Access::token",
        ),
        (Access::open().read_only_token("c"), "only Access::token"),
        (
            Access::custom(|_| true).read_only_token("c"),
            "only Access::token",
        ),
    ] {
        let alone = router::<()>(source(), access.clone());
        for router in [alone, mounted(source(), access, "/pulse")] {
            let error = router.expect_err("refused");
            assert_eq!(error.field(), "access");
            assert!(error.to_string().contains(named), "{error}");
        }
    }
    for access in [
        Access::token("s3cret"),
        Access::token("a").read_only_token("s3cret"),
        Access::basic("s3cret", "s3cret"),
    ] {
        assert!(!format!("{access:?}").contains("s3cret"));
    }
}

#[test]
fn a_weak_secret_causes_a_warning() {
    let logged = |access: Access, has_debug_assertions| {
        let notices = Notices::default();
        access.warn_if_weak(&notices, has_debug_assertions);
        let warnings = notices.all(&Clock::system());
        assert!((warnings.iter()).all(|one| one.condition == Condition::Configuration));
        texts(warnings)
    };
    for access in [
        Access::token("change me"),
        Access::token("123456789012345\n"),
        Access::token("1234567890123456").read_only_token("change me"),
        Access::basic("an operator", "change me"),
    ] {
        assert_eq!(logged(access.clone(), true), Vec::<String>::new());
        let warnings = logged(access, false);
        assert!(warnings[0].contains("16 characters"), "{warnings:?}");
        assert!(!warnings[0].contains("change me"), "{warnings:?}");
    }
    for access in [
        Access::token("1234567890123456"),
        Access::basic("x", "größe-größe-größe"),
        Access::open(),
        Access::custom(|_| true),
    ] {
        assert_eq!(logged(access, false), Vec::<String>::new());
    }
}
