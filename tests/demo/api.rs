//! The admin API of a running service, with valid and invalid requests.

use super::rig::demo::built;
use super::rig::http::Client;
use super::rig::server::RedisServer;
use super::{start_without_traffic, until};

#[tokio::test]
async fn an_invalid_parameter_is_400_and_named() {
    let demo = start_without_traffic(&[]).await;
    let mut client = Client::connect(demo.address()).await;
    for (path, parameter, says) in [
        ("paths?limit=-1", "limit", "a whole number from 0"),
        ("paths?limit=many", "limit", "a whole number from 0"),
        ("paths?limit=", "limit", "a whole number from 0"),
        ("paths?offset=-1", "offset", "a whole number from 0"),
        ("paths?window=year", "window", "hour, last_hour"),
        ("paths?kind=x", "kind", "http, timer"),
        ("paths?sort=name", "sort", "count, mean, p95"),
        ("paths?order=up", "order", "desc, asc"),
        ("paths?q=%ff", "q", "percent-encoded UTF-8"),
        ("slowest?limit=1.5", "limit", "a whole number from 0"),
        ("slowest_requests?window=5m", "window", "hour, last_hour"),
        (
            "slowest_requests?limit=-1",
            "limit",
            "a whole number from 0",
        ),
        ("path", "context", "missing"),
        ("path?context=", "context", "empty"),
        ("counters?name=&precision=1", "name", "empty"),
        (
            "counters?name=x&precision=0",
            "precision",
            "in seconds: 1, 5, 60",
        ),
        (
            "counters?name=x&precision=x",
            "precision",
            "in seconds: 1, 5, 60",
        ),
        ("series?metric=p98", "metric", "p95"),
        (
            "series?metric=p95&precision=5",
            "precision",
            "in seconds: 60",
        ),
        ("series?context=", "context", "empty"),
    ] {
        let response = client.get(&format!("/admin/pulse/api/{path}")).await;
        assert_eq!(response.status, 400, "{path}: {}", response.text());
        let answer = response.json();
        assert_eq!(answer["parameter"], parameter, "{path}: {answer}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(says), "{path}: {answer}");
        assert!(response.header("content-security-policy").is_some());
    }
    let unknown = client.get("/admin/pulse/api/path?context=nobody").await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["error"].is_string());
    let path = "/admin/pulse/api/counters?name=nobody&precision=60";
    let unknown = client.get(path).await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["error"].is_string());
}

#[tokio::test]
async fn the_admin_router_requires_the_token() {
    let demo = start_without_traffic(&[("PULSE_TOKEN", "s3cret")]).await;
    let mut client = Client::connect(demo.address()).await;
    for path in ["", "/", "/api/health", "/assets/app.js", "/metrics"] {
        let path = format!("/admin/pulse{path}");
        let refused = client.get(&path).await;
        assert_eq!(refused.status, 401, "{path}");
        assert!(
            refused
                .header("www-authenticate")
                .unwrap()
                .starts_with("Basic")
        );
        let bearer = [("authorization", "Bearer s3cret")];
        let allowed = client.request("GET", &path, &bearer, "").await;
        assert_eq!(allowed.status, 200, "{path}");
    }
}

#[tokio::test]
async fn the_demo_refuses_to_be_open_beyond_loopback() {
    let output = std::process::Command::new(built())
        .env("LISTEN", "0.0.0.0:0")
        .env_remove("PULSE_TOKEN")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("PULSE_TOKEN"), "{text}");
}

#[tokio::test]
async fn an_invalid_environment_variable_is_named() {
    for (name, value) in [
        ("PULSE_FLUSH_MS", "9"),
        ("PULSE_FLUSH_MS", "60001"),
        ("PULSE_FLUSH_MS", "soon"),
        ("PULSE_CLEAN_SECS", "0"),
        ("REDIS_URL", "redis//nowhere"),
        ("PULSE_PREFIX", "a\tb"),
        ("LISTEN", "somewhere"),
    ] {
        let output = std::process::Command::new(built())
            .env("LISTEN", "127.0.0.1:0")
            .env("DEMO_TRAFFIC", "off")
            .env("REDIS_URL", "redis://127.0.0.1:1/")
            .env(name, value)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{name}={value}");
        let text = String::from_utf8_lossy(&output.stderr).to_lowercase();
        let field = match name {
            "PULSE_FLUSH_MS" => "flush",
            "PULSE_CLEAN_SECS" => "clean",
            "REDIS_URL" => "redis",
            "PULSE_PREFIX" => "prefix",
            _ => "listen",
        };
        assert!(text.contains(field), "{name}={value}: {text}");
    }
}

#[tokio::test]
async fn a_store_that_is_down_at_the_start_only_shows_in_health() {
    let redis = RedisServer::start().await;
    redis.kill_9();
    let demo = start_without_traffic(&[("REDIS_URL", &redis.url())]).await;
    let mut client = Client::connect(demo.address()).await;
    for _ in 0..20 {
        assert_eq!(client.get("/ping").await.status, 200);
    }
    let path = "/admin/pulse/api/health";
    let health = until(&mut client, path, |health| health["status"] == "down").await;
    assert!(health["store"]["last_error"].is_string(), "{health}");
    let failed = client.get("/admin/pulse/api/paths").await;
    assert_eq!(failed.status, 503);
    assert!(failed.json()["error"].is_string());
    assert_eq!(client.get("/admin/pulse").await.status, 200);

    redis.restart().await;
    until(&mut client, path, |health| {
        health["status"] == "ok" && health["recording"]["pending_series"] == 0
    })
    .await;
    super::wait_until_counted(&mut client, "GET /ping", 20).await;
}

#[tokio::test]
async fn garbage_in_redis_is_reported_and_all_other_data_is_shown() {
    let redis = RedisServer::start().await;
    let mut conn = redis.connection().await;
    for command in [
        "SET stats:GET /ping:AccessTime garbage",
        "RPUSH count:1:hits:GET /ping garbage",
        "SET known: garbage",
    ] {
        let mut words = command.splitn(2, ' ');
        let (name, arguments) = (words.next().unwrap(), words.next().unwrap());
        let (key, value) = arguments.rsplit_once(' ').unwrap();
        let _: () = redis::cmd(name)
            .arg(key)
            .arg(value)
            .query_async(&mut conn)
            .await
            .unwrap();
    }
    let demo = start_without_traffic(&[("REDIS_URL", &redis.url()), ("PULSE_PREFIX", "")]).await;
    let mut client = Client::connect(demo.address()).await;
    for _ in 0..5 {
        client.get("/ping").await;
        client.get("/api/v1/users/3").await;
    }
    super::wait_until_counted(&mut client, "GET /api/v1/users/{id}", 5).await;
    let path = "/admin/pulse/api/health";
    let health = until(&mut client, path, |health| {
        health["fold"]["quarantined"].as_u64() > Some(0)
            && health["reading"]["unreadable"] != serde_json::json!([])
    })
    .await;
    let named = health["fold"]["quarantined_keys"].to_string();
    assert!(named.contains("stats:GET /ping:AccessTime"), "{health:#}");
    for path in [
        "overview",
        "paths",
        "slowest",
        "path?context=GET%20/ping",
        "counters?name=hits:GET%20/ping&precision=1",
    ] {
        let status = client.get(&format!("/admin/pulse/api/{path}")).await.status;
        assert_eq!(status, 200, "{path}");
    }
}

#[tokio::test]
async fn the_cleaner_is_shown() {
    let redis = RedisServer::start().await;
    let mut conn = redis.connection().await;
    for command in [
        "HSET pulse:count:1:dead 1000 1",
        "ZADD pulse:known: 0 1:dead",
        "ZADD pulse:known: 0 garbage",
    ] {
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        command.exec_async(&mut conn).await.unwrap();
    }
    let env = [("REDIS_URL", &*redis.url()), ("PULSE_CLEAN_SECS", "1")];
    let demo = start_without_traffic(&env).await;
    let mut client = Client::connect(demo.address()).await;
    for _ in 0..5 {
        client.get("/ping").await;
    }
    let path = "/admin/pulse/api/health";
    let health = until(&mut client, path, |health| {
        health["cleaning"]["examined"].as_u64() > Some(0)
            && health["warnings"].to_string().contains("garbage")
    })
    .await;
    let (cleaning, now) = (&health["cleaning"], std::time::SystemTime::now());
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let at = cleaning["last_pass_at"].as_u64().unwrap();
    assert!((at..at + 10).contains(&now), "{health:#}");
    for figure in ["passes", "slices", "counters", "contexts"] {
        assert!(cleaning[figure].is_number(), "{figure}: {health:#}");
    }
    let left: i64 = redis::cmd("EXISTS")
        .arg("pulse:count:1:dead")
        .query_async(&mut conn)
        .await
        .unwrap();
    assert_eq!(left, 0);
}
