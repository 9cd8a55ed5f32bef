//! The rig's own tests: each fault does what it says, against a real server.

#![allow(clippy::unwrap_used, reason = "test code: a panic is a failed test")]

use std::time::Duration;

use pulse_rig::proxy::{Proxy, Swallow};
use pulse_rig::server::{RedisServer, connect};
use pulse_rig::wait::until;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, cmd};

/// Long enough to see that no answer comes.
const SHORT: Duration = Duration::from_millis(60);

async fn through(proxy: &Proxy) -> MultiplexedConnection {
    connect(&redis::Client::open(proxy.url()).unwrap()).await
}

async fn ping(conn: &mut MultiplexedConnection) -> RedisResult<String> {
    cmd("PING").query_async(conn).await
}

async fn incr(conn: &mut MultiplexedConnection) -> RedisResult<i64> {
    cmd("INCR").arg("n").query_async(conn).await
}

async fn n(server: &RedisServer) -> Option<i64> {
    let mut conn = server.connection().await;
    cmd("GET").arg("n").query_async(&mut conn).await.unwrap()
}

mod server {
    use super::*;

    #[tokio::test]
    async fn starts_answers_and_leaves_nothing_behind() {
        let server = RedisServer::start().await;
        let (pid, dir) = (server.pid(), server.dir().to_owned());
        assert_eq!(ping(&mut server.connection().await).await.unwrap(), "PONG");
        assert!(server.used_memory().await > 100_000);
        assert!(server.cpu_micros().await > 0);
        let info = server.info("server").await;
        assert_eq!(info["tcp_port"], server.port().to_string());
        assert_eq!(info["process_id"], pid.to_string());
        drop(server);
        assert!(!dir.exists());
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[tokio::test]
    async fn a_panic_takes_the_server_along() {
        let (send, receive) = std::sync::mpsc::channel();
        let panicked = tokio::spawn(async move {
            let server = RedisServer::start().await;
            server.freeze();
            send.send(server.pid()).unwrap();
            panic!("on purpose: the server must go with this test");
        });
        assert!(panicked.await.is_err());
        let pid = receive.recv().unwrap();
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[tokio::test]
    async fn keeps_its_data_over_kills_when_told_to() {
        let server = RedisServer::builder()
            .arg("--appendonly", "yes")
            .arg("--appendfsync", "always")
            .start()
            .await;
        let url = server.url();
        incr(&mut server.connection().await).await.unwrap();
        server.kill_9();
        assert!(server.client().get_connection().is_err());
        server.restart().await;
        assert_eq!(n(&server).await, Some(1));
        incr(&mut server.connection().await).await.unwrap();
        server.terminate();
        server.restart().await;
        assert_eq!(n(&server).await, Some(2));
        assert_eq!(server.url(), url);
    }

    #[tokio::test]
    async fn forgets_its_data_by_default() {
        let server = RedisServer::start().await;
        incr(&mut server.connection().await).await.unwrap();
        server.restart().await;
        assert_eq!(n(&server).await, None);
    }

    #[tokio::test]
    async fn frozen_it_is_silent_and_thawed_it_goes_on() {
        let server = RedisServer::start().await;
        let mut conn = server.connection().await;
        server.freeze();
        conn.set_response_timeout(SHORT);
        assert!(incr(&mut conn).await.unwrap_err().is_timeout());
        server.thaw();
        conn.set_response_timeout(Duration::from_secs(10));
        assert_eq!(incr(&mut conn).await.unwrap(), 2, "the first one too");
        server.freeze();
        server.terminate();
    }

    #[tokio::test]
    async fn closes_its_clients() {
        let server = RedisServer::start().await;
        let mut conn = server.connection().await;
        ping(&mut conn).await.unwrap();
        assert_eq!(server.kill_clients().await, 1);
        assert!(ping(&mut conn).await.unwrap_err().is_connection_dropped());
        ping(&mut server.connection().await).await.unwrap();
    }

    #[tokio::test]
    async fn replicates() {
        let primary = RedisServer::start().await;
        let replica = RedisServer::builder()
            .replica_of(primary.port())
            .start()
            .await;
        until("the replica follows", async || {
            replica.info("replication").await["master_link_status"] == "up"
        })
        .await;
        incr(&mut primary.connection().await).await.unwrap();
        until("the write is replicated", async || {
            n(&replica).await == Some(1)
        })
        .await;
        let refused = incr(&mut replica.connection().await).await.unwrap_err();
        assert_eq!(refused.code(), Some("READONLY"));
    }

    #[tokio::test]
    async fn demands_its_password() {
        let server = RedisServer::builder().password("secret").start().await;
        ping(&mut server.connection().await).await.unwrap();
        let bare = redis::Client::open(("127.0.0.1", server.port())).unwrap();
        let refused = ping(&mut connect(&bare).await).await.unwrap_err();
        assert_eq!(refused.code(), Some("NOAUTH"));
    }

    #[tokio::test]
    #[should_panic(expected = "redis-server is not installed: run `make setup`")]
    async fn says_how_to_install_what_is_missing() {
        let missing = RedisServer::builder().binary("/nowhere/redis-server");
        missing.start().await;
    }

    #[tokio::test]
    #[should_panic(expected = "no-such-option")]
    async fn shows_the_log_of_a_server_that_does_not_start() {
        let wrong = RedisServer::builder().arg("--no-such-option", "1");
        wrong.start().await;
    }
}

mod proxy {
    use super::*;

    async fn both() -> (RedisServer, Proxy) {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port()).await;
        (server, proxy)
    }

    #[tokio::test]
    async fn forwards_and_counts() {
        let (server, proxy) = both().await;
        let mut conn = through(&proxy).await;
        let big = "x".repeat(1 << 20);
        cmd("SET")
            .arg("big")
            .arg(&big)
            .exec_async(&mut conn)
            .await
            .unwrap();
        let got: String = cmd("GET").arg("big").query_async(&mut conn).await.unwrap();
        assert!(got == big);
        assert_eq!(proxy.connections(), 1);
        assert_eq!(proxy.open(), 1);
        assert!(proxy.bytes() > 2 << 20);
        drop(conn);
        until("no connection is open", async || proxy.open() == 0).await;

        let mut conn = through(&proxy).await;
        server.kill_9();
        assert!(ping(&mut conn).await.unwrap_err().is_connection_dropped());
    }

    #[tokio::test]
    async fn passes_on_half_closed_connections() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (_server, proxy) = both().await;
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", proxy.port()))
            .await
            .unwrap();
        stream.write_all(b"PING\r\nQUIT\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).await.unwrap();
        assert_eq!(replies, "+PONG\r\n+OK\r\n");
        until("no connection is open", async || proxy.open() == 0).await;
    }

    #[tokio::test]
    async fn cuts_present_connections_only() {
        let (_server, proxy) = both().await;
        let mut conn = through(&proxy).await;
        proxy.cut();
        assert!(ping(&mut conn).await.unwrap_err().is_connection_dropped());
        ping(&mut through(&proxy).await).await.unwrap();
        assert_eq!(proxy.connections(), 2);
    }

    #[tokio::test]
    async fn refuses_new_connections_only() {
        let (_server, proxy) = both().await;
        let mut before = through(&proxy).await;
        proxy.refuse(true);
        let client = redis::Client::open(proxy.url()).unwrap();
        let refused = client.get_multiplexed_async_connection().await;
        assert!(refused.unwrap_err().is_connection_dropped());
        ping(&mut before).await.unwrap();
        proxy.heal();
        ping(&mut through(&proxy).await).await.unwrap();
    }

    #[tokio::test]
    async fn a_black_hole_delivers_nothing_until_it_closes() {
        let (server, proxy) = both().await;
        let mut conn = through(&proxy).await;
        proxy.black_hole(true);
        conn.set_response_timeout(SHORT);
        assert!(incr(&mut conn).await.unwrap_err().is_timeout());
        assert_eq!(n(&server).await, None);

        let config = redis::AsyncConnectionConfig::new().set_connection_timeout(Some(SHORT));
        let client = redis::Client::open(proxy.url()).unwrap();
        let silent = client
            .get_multiplexed_async_connection_with_config(&config)
            .await;
        assert!(silent.unwrap_err().is_timeout(), "accepted, not answered");
        assert_eq!(proxy.connections(), 2);

        proxy.black_hole(false);
        conn.set_response_timeout(Duration::from_secs(10));
        assert_eq!(incr(&mut conn).await.unwrap(), 2, "the first one too");
    }

    #[tokio::test]
    async fn delays_replies() {
        let (_server, proxy) = both().await;
        let mut conn = through(&proxy).await;
        proxy.delay(SHORT);
        let start = std::time::Instant::now();
        ping(&mut conn).await.unwrap();
        assert!(start.elapsed() >= SHORT);
    }

    #[tokio::test]
    async fn slices_both_ways() {
        let (_server, proxy) = both().await;
        proxy.slice(true);
        let mut conn = through(&proxy).await;
        let big = "x".repeat(2000);
        let echo: String = cmd("ECHO").arg(&big).query_async(&mut conn).await.unwrap();
        assert!(echo == big);
    }

    #[tokio::test]
    async fn moves_to_another_server() {
        let (_first, proxy) = both().await;
        let second = RedisServer::start().await;
        incr(&mut second.connection().await).await.unwrap();
        let mut old = through(&proxy).await;
        proxy.set_upstream(second.port());
        assert_eq!(incr(&mut old).await.unwrap(), 1);
        assert_eq!(incr(&mut through(&proxy).await).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn swallows_a_reply_and_cuts() {
        let (server, proxy) = both().await;
        let mut conn = through(&proxy).await;
        ping(&mut conn).await.unwrap();
        proxy.swallow_replies(1.0, 1, Swallow::Cut);
        assert!(incr(&mut conn).await.unwrap_err().is_connection_dropped());
        assert_eq!(n(&server).await, Some(1), "executed all the same");
        assert_eq!(proxy.swallowed(), 1);
    }

    #[tokio::test]
    async fn swallows_a_reply_and_hangs_until_cut() {
        let (server, proxy) = both().await;
        let mut conn = through(&proxy).await;
        ping(&mut conn).await.unwrap();
        proxy.swallow_replies(1.0, 1, Swallow::Hang);
        conn.set_response_timeout(SHORT);
        assert!(incr(&mut conn).await.unwrap_err().is_timeout());
        proxy.heal();
        assert!(incr(&mut conn).await.unwrap_err().is_timeout());
        assert_eq!(n(&server).await, Some(2), "both executed");
        assert_eq!(proxy.swallowed(), 1, "one sentence for the connection");
        proxy.cut();
        assert!(incr(&mut conn).await.unwrap_err().is_connection_dropped());
    }

    #[tokio::test]
    async fn delivers_the_replies_before_the_swallowed_one() {
        let (server, proxy) = both().await;
        let mut conn = through(&proxy).await;
        // One answer is on its way while the next request is doomed.
        proxy.delay(SHORT);
        let before = proxy.bytes();
        let mut other = conn.clone();
        let mut echo = cmd("ECHO");
        echo.arg("first");
        let (first, second) = tokio::join!(echo.query_async::<String>(&mut other), async {
            until("bytes are forwarded", async || proxy.bytes() > before).await;
            proxy.swallow_replies(1.0, 1, Swallow::Cut);
            incr(&mut conn).await
        });
        assert_eq!(first.unwrap(), "first");
        assert!(second.unwrap_err().is_connection_dropped());
        assert_eq!(n(&server).await, Some(1));
        assert!(ping(&mut conn).await.is_err());
    }

    #[tokio::test]
    async fn throws_the_same_dice_for_the_same_seed() {
        let seed = pulse_rig::seed::seed();
        let mut runs = Vec::new();
        for _ in 0..2 {
            let (server, proxy) = both().await;
            let mut conn = through(&proxy).await;
            ping(&mut conn).await.unwrap();
            proxy.swallow_replies(0.05, seed, Swallow::Cut);
            let mut answers = 0;
            while answers < 500 && incr(&mut conn).await.is_ok() {
                answers += 1;
            }
            assert_eq!(n(&server).await, Some(answers + proxy.swallowed() as i64));
            runs.push(answers);
        }
        assert_eq!(runs[0], runs[1]);
    }

    #[tokio::test]
    async fn truncates_a_reply() {
        let (server, proxy) = both().await;
        let mut conn = through(&proxy).await;
        proxy.truncate(1.0, 1);
        assert!(ping(&mut conn).await.is_err());
        assert_eq!(proxy.truncated(), 1);

        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", proxy.port()))
            .await
            .unwrap();
        stream
            .write_all(b"INCR n\r\nECHO 0123456789\r\n")
            .await
            .unwrap();
        let mut half = String::new();
        let _ = stream.read_to_string(&mut half).await;
        assert_eq!(half, ":1\r\n$10\r\n012", "half of the last reply");
        assert_eq!(n(&server).await, Some(1));
    }

    /// Messages one after another, each with whether it answers a request.
    const MESSAGES: [(&str, bool); 10] = [
        ("+OK\r\n", true),
        ("$5\r\nhe\r\no\r\n", true),
        ("$-1\r\n", true),
        ("*-1\r\n", true),
        ("*0\r\n", true),
        ("*2\r\n*2\r\n:1\r\n$0\r\n\r\n*1\r\n-ERR no\r\n", true),
        (">2\r\n+message\r\n*1\r\n:1\r\n", false),
        ("%1\r\n+a\r\n*1\r\n,1.5\r\n", true),
        ("|1\r\n+ttl\r\n:9\r\n$2\r\nok\r\n", true),
        ("_\r\n", true),
    ];

    #[test]
    fn finds_messages_however_the_stream_is_cut() {
        let stream: String = MESSAGES.iter().map(|(text, _)| *text).collect();
        let mut expected = Vec::new();
        let mut end = 0;
        for (text, counts) in MESSAGES {
            end += text.len();
            expected.extend(counts.then_some(end));
        }
        for size in 1..=stream.len() {
            let mut frames = pulse_rig::resp::Frames::default();
            let mut ends = Vec::new();
            for (index, chunk) in stream.as_bytes().chunks(size).enumerate() {
                ends.extend(frames.feed(chunk).iter().map(|end| index * size + end));
            }
            assert_eq!(ends, expected, "in chunks of {size}");
        }
    }
}

mod book {
    use super::*;
    use pulse_rig::book::*;

    #[tokio::test]
    async fn counters_are_the_books() {
        let server = RedisServer::start().await;
        let mut conn = server.connection().await;
        for (now, hits) in [
            (1_336_376_410, 45),
            (1_336_376_405, 28),
            (1_336_376_399, 17),
        ] {
            update_counter(&mut conn, "", "hits", hits, now, &PRECISIONS)
                .await
                .unwrap();
        }
        let fives = get_counter(&mut conn, "", "hits", 5).await.unwrap();
        assert_eq!(
            fives,
            [
                (1_336_376_395, 17),
                (1_336_376_405, 28),
                (1_336_376_410, 45)
            ]
        );
        let days = get_counter(&mut conn, "", "hits", 86_400).await.unwrap();
        assert_eq!(days, [(1_336_348_800, 90)]);
        let known: Vec<(String, f64)> = cmd("ZRANGE")
            .arg("known:")
            .arg(&[0, -1])
            .arg("WITHSCORES")
            .query_async(&mut conn)
            .await
            .unwrap();
        let mut names = PRECISIONS.map(|p| (format!("{p}:hits"), 0.0)).to_vec();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(known, names);
    }

    #[tokio::test]
    async fn cleaning_keeps_the_newest_samples_and_forgets_the_empty() {
        let server = RedisServer::start().await;
        let mut conn = server.connection().await;
        let conn = &mut conn;
        for now in [100, 160, 220] {
            update_counter(conn, "p:", "a", 1, now, &[1, 300])
                .await
                .unwrap();
        }
        update_counter(conn, "p:", "b", 1, 100, &[1]).await.unwrap();

        // Pass 1 is not for five-minute counters. 160 lies on the cut-off and goes.
        let cleaned = clean_counters_pass(conn, "p:", 1, 60, 220).await.unwrap();
        let expected = CleanReport {
            examined: 2,
            slices: 3,
            counters: 1,
        };
        assert_eq!(cleaned, expected);
        assert_eq!(get_counter(conn, "p:", "a", 1).await.unwrap(), [(220, 1)]);
        assert_eq!(get_counter(conn, "p:", "a", 300).await.unwrap(), [(0, 3)]);
        let known: Vec<String> = cmd("ZRANGE")
            .arg("p:known:")
            .arg(&[0, -1])
            .query_async(conn)
            .await
            .unwrap();
        assert_eq!(known, ["1:a", "300:a"]);

        let cleaned = clean_counters_pass(conn, "p:", 5, 1, 10_000).await.unwrap();
        assert_eq!((cleaned.examined, cleaned.counters), (2, 2));
        let left: Vec<String> = cmd("KEYS").arg("*").query_async(conn).await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    }

    #[tokio::test]
    async fn statistics_agree_with_the_formulas() {
        let server = RedisServer::start().await;
        let mut conn = server.connection().await;
        let conn = &mut conn;
        let (hour, next) = (hour_iso(1_336_376_410), hour_iso(1_336_376_410 + 3600));
        let values = [0.25, 1.5, 0.125, 4.0];
        for value in values {
            update_stats(conn, "", "Page", "AccessTime", value, &hour)
                .await
                .unwrap();
        }
        let stats = get_stats(conn, "", "Page", "AccessTime").await.unwrap();
        let mean = values.iter().sum::<f64>() / 4.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 3.0;
        assert_eq!((stats.min, stats.max, stats.count), (0.125, 4.0, 4.0));
        assert_eq!(stats.average, mean);
        assert!((stats.stddev - variance.sqrt()).abs() < 1e-12);

        let totals = update_stats(conn, "", "Page", "AccessTime", 2.0, &next)
            .await
            .unwrap();
        assert_eq!(totals, (1.0, 2.0, 4.0));
        let last = get_stats(conn, "", "Page", "AccessTime:last")
            .await
            .unwrap();
        assert_eq!(last, stats);
        let starts: (String, String) = cmd("MGET")
            .arg("stats:Page:AccessTime:pstart")
            .arg("stats:Page:AccessTime:start")
            .query_async(conn)
            .await
            .unwrap();
        assert_eq!(starts, (hour, next));
        let keys: Vec<String> = cmd("KEYS").arg("*").query_async(conn).await.unwrap();
        assert_eq!(keys.len(), 4, "no temporary set is left: {keys:?}");
    }

    #[tokio::test]
    async fn the_print_never_turns_the_hour() {
        let server = RedisServer::start().await;
        let mut conn = server.connection().await;
        for hour in ["2012-05-07T07:00:00", "2012-05-07T08:00:00"] {
            update_stats_as_printed(&mut conn, "", "c", "t", 1.0, hour)
                .await
                .unwrap();
        }
        let stats = get_stats(&mut conn, "", "c", "t").await.unwrap();
        assert_eq!((stats.count, stats.stddev), (2.0, 0.0));
        let keys: Vec<String> = cmd("KEYS").arg("*").query_async(&mut conn).await.unwrap();
        assert_eq!(keys, ["stats:c:t"]);
    }

    #[tokio::test]
    async fn concurrent_updates_lose_nothing_when_the_hour_turns() {
        let server = RedisServer::start().await;
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let mut conn = server.connection().await;
            writers.spawn(async move {
                for hour in ["2012-05-07T07:00:00", "2012-05-07T08:00:00"] {
                    for _ in 0..20 {
                        update_stats(&mut conn, "", "c", "t", 1.0, hour)
                            .await
                            .unwrap();
                    }
                }
            });
        }
        writers.join_all().await;
        let mut conn = server.connection().await;
        let now = get_stats(&mut conn, "", "c", "t").await.unwrap();
        let last = get_stats(&mut conn, "", "c", "t:last").await.unwrap();
        assert_eq!(now.count + last.count, 320.0);
    }

    #[tokio::test]
    async fn the_slowest_hundred_stay() {
        let server = RedisServer::start().await;
        let mut conn = server.connection().await;
        for index in 0..=101 {
            let page = format!("/page/{index}");
            access_time(&mut conn, "p:", &page, f64::from(index))
                .await
                .unwrap();
        }
        access_time(&mut conn, "p:", "/page/101", 102.0)
            .await
            .unwrap();
        let slowest = slowest(&mut conn, "p:").await.unwrap();
        assert_eq!(slowest.len(), 100);
        assert_eq!(slowest[0], ("/page/101".to_owned(), 101.5));
        assert_eq!(slowest[99], ("/page/2".to_owned(), 2.0));
    }

    #[test]
    fn hours_are_written_as_in_the_book() {
        let hours = [
            (1_336_376_410, "2012-05-07T07:00:00"),
            (0, "1970-01-01T00:00:00"),
            (951_868_799, "2000-02-29T23:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_735_689_599, "2024-12-31T23:00:00"),
            (-1, "1969-12-31T23:00:00"),
        ];
        for (second, hour) in hours {
            assert_eq!(hour_iso(second), hour);
        }
    }
}

mod http {
    use axum::Router;
    use axum::body::{Body, Bytes};
    use axum::http::{Method, Uri};
    use axum::routing::{any, get, post};
    use pulse_rig::http::Client;
    use std::net::SocketAddr;

    async fn serve() -> SocketAddr {
        let chunks = async || {
            let parts = ["one ", "two ", "three"].map(Ok::<_, std::io::Error>);
            Body::from_stream(futures_util::stream::iter(parts))
        };
        let app = Router::new()
            .route(
                "/json",
                get(async || axum::Json(serde_json::json!({"a": [1, 2]}))),
            )
            .route("/echo", post(async |body: Bytes| body))
            .route("/chunks", get(chunks))
            .route("/bye", get(async || ([("connection", "close")], "bye")))
            .fallback(any(async |method: Method, uri: Uri| {
                format!("{method} {uri}")
            }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        address
    }

    #[tokio::test]
    async fn speaks_plain_http() {
        let mut client = Client::connect(serve().await).await;
        assert_eq!(client.json("/json").await["a"][1], 2);
        let answer = client
            .request("POST", "/echo", &[("x-a", "b")], "body")
            .await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "body"));
        let answer = client.get("/chunks").await;
        assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
        assert_eq!(answer.text(), "one two three");
        let answer = client.request("HEAD", "/json", &[], "").await;
        assert_eq!((answer.status, answer.body.len()), (200, 0));
        assert_eq!(client.get("/echo").await.status, 405);
        assert_eq!(client.get("/bye").await.text(), "bye");
        assert_eq!(client.get("/again").await.text(), "GET /again");
    }

    #[tokio::test]
    async fn speaks_odd_http() {
        let mut client = Client::connect(serve().await).await;
        let answer = client.request("BREW-X", "/%ff?q=%00", &[], "").await;
        assert_eq!(answer.text(), "BREW-X /%ff?q=%00");
        let answer = client.request("GET", "/ü".as_bytes(), &[], "").await;
        assert_eq!(answer.text(), "GET /ü");
        // hyper takes raw bytes in a path only where they are UTF-8.
        let answer = client.request("GET", b"/\xff", &[], "").await;
        assert_eq!(answer.status, 400);
        let answer = client
            .raw(b"GET / HTTP/1.1\r\nhost: \r\n\r\n")
            .await
            .unwrap();
        assert_eq!(answer.status, 200);
        let answer = client.raw(b"nonsense\r\n\r\n").await.unwrap();
        assert_eq!(answer.status, 400);
    }
}

mod demo {
    use super::*;
    use pulse_rig::demo::Demo;
    use pulse_rig::process::{Leashed, TempDir, free_port, reserve_port};
    use std::net::TcpStream;
    use std::process::Command;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    /// Not a test of its own: the child process that the next test starts.
    #[tokio::test]
    async fn child() {
        let (Ok(listen), Ok(_)) = (std::env::var("LISTEN"), std::env::var("RIG_CHILD")) else {
            return;
        };
        let mut term =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        let listener = tokio::net::TcpListener::bind(listen).await.unwrap();
        let app = axum::Router::new().fallback(async || std::env::var("GREETING").unwrap());
        axum::serve(listener, app)
            .with_graceful_shutdown(async move {
                term.recv().await;
            })
            .await
            .unwrap();
        std::process::exit(7);
    }

    /// A script that runs only `child` of this very binary.
    fn script(dir: &TempDir) -> std::path::PathBuf {
        let path = dir.path().join("demo");
        let this = std::env::current_exe().unwrap();
        // Written by another process: one of ours might be forked while the file is open for
        // writing, and a file that somebody may write cannot be executed.
        let made = Command::new("sh")
            .arg("-c")
            .arg(r#"printf '#!/bin/sh\necho started\necho on stderr >&2\nexec "%s" --exact demo::child --nocapture\n' "$2" > "$1" && chmod +x "$1""#)
            .arg("sh")
            .arg(&path)
            .arg(this)
            .status();
        assert!(made.unwrap().success());
        path
    }

    #[tokio::test]
    async fn runs_until_it_is_told_to_end() {
        let dir = TempDir::new("script");
        let env = [("RIG_CHILD", "1"), ("GREETING", "hello")];
        let demo = Demo::start(script(&dir), &env).await;
        let mut client = pulse_rig::http::Client::connect(demo.address()).await;
        assert_eq!(client.get("/").await.text(), "hello");
        assert!(demo.stdout().starts_with("started\n"));
        assert!(demo.stderr().contains("on stderr\n"));
        assert!(demo.rss_bytes() > 1 << 20);
        assert!(demo.wait_exit(Duration::ZERO).await.is_none());
        drop(client);
        demo.signal("TERM");
        let exit = demo.wait_exit(Duration::from_secs(5)).await.unwrap();
        assert_eq!(exit.code(), Some(7));

        let demo = Demo::start(script(&dir), &env).await;
        demo.kill_9();
        let exit = demo.wait_exit(Duration::ZERO).await.unwrap();
        assert_eq!(exit.code(), None);
    }

    #[tokio::test]
    #[should_panic(expected = "does not listen")]
    async fn shows_a_binary_that_ends_at_once() {
        Demo::start("/bin/false", &[]).await;
    }

    /// Every test starts processes, and a child has all descriptors of its parent until it executes its program: a port
    /// that was tried by listening on it would be open in a child for a moment, and the server that is to listen there
    /// would seem to be up.
    #[test]
    fn a_free_port_is_closed_while_other_tests_start_processes() {
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !end.load(Relaxed) {
                        Command::new("true").status().unwrap();
                    }
                });
            }
            let open = (0..1000).filter(|_| {
                let (port, _reservation) = reserve_port();
                // So that some hundred children start meanwhile.
                std::thread::sleep(Duration::from_micros(100));
                TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            let open = open.count();
            end.store(true, Relaxed);
            assert_eq!(open, 0, "of 1000 free ports");
        });
    }

    /// Another process would fail in the same way as this one does.
    #[test]
    fn a_free_port_is_given_to_nobody_else() {
        let port = free_port();
        let other = std::net::UdpSocket::bind(("127.0.0.1", port));
        assert_eq!(other.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    }

    #[test]
    fn the_watcher_ends_a_child_whose_owner_was_killed() {
        let dir = TempDir::new("owner");
        let mut child = Leashed::spawn(Command::new("sleep").arg("60"), dir.path()).unwrap();
        child.signal("STOP");
        child.lose_the_leash();
        let exit = child.wait(Duration::from_secs(5)).expect("killed");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&exit),
            Some(9)
        );
    }
}
