//! `build` refuses an invalid configuration with an error that names the field, the value and the allowed values.
//! Without a configured name, an instance is named after its host.

use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Builder, Clock, Pulse};
use tower_pulse_core::store::Precisions;
use tower_pulse_core::store::memory::MemoryStore;

fn assert_refused(builder: Builder, field: &str, value: &str, allowed: &str) {
    let error = builder.build_with_tasks().map(|_| ()).unwrap_err();
    assert_eq!(error.field(), field, "{error}");
    let text = error.to_string();
    assert!(text.contains(value), "{text:?} does not name {value:?}");
    assert!(text.contains(allowed), "{text:?} does not say {allowed:?}");
}

/// A field, and the error's text about its allowed values.
struct Field<'a>(&'a str, &'a str);

impl Field<'_> {
    fn assert_refused(&self, builder: Builder, value: &str) {
        assert_refused(builder, self.0, value, self.1);
    }
}

#[test]
fn each_field_out_of_range_is_refused() {
    let b = Pulse::builder;
    let (ms, secs) = (Duration::from_millis, Duration::from_secs);
    let field = Field("flush_interval", "10 ms to 60 s");
    field.assert_refused(b().flush_interval(ms(9)), "9ms");
    field.assert_refused(b().flush_interval(ms(60_001)), "60.001s");
    let field = Field("target", "1 µs to 1 h");
    field.assert_refused(b().target(Duration::from_nanos(999)), "999ns");
    field.assert_refused(b().target(ms(3_600_001)), "3600.001s");
    let field = Field("clean_interval", "1 s to 1 h");
    field.assert_refused(b().clean_interval(ms(999)), "999ms");
    field.assert_refused(b().clean_interval(secs(3_601)), "3601s");
    let field = Field("ranking_retention", "1 min to 1 year");
    field.assert_refused(b().ranking_retention(secs(59)), "59s");
    let field = Field("context_retention", "1 h to 10 years");
    field.assert_refused(b().context_retention(secs(3_599)), "3599s");
    let (field, day) = (Field("history", "15 to 400 days"), 86_400);
    field.assert_refused(b().history(secs(15 * day - 1)), "1295999s");
    field.assert_refused(b().history(secs(400 * day + 1)), "34560001s");
    let field = Field("shutdown_timeout", "0 to 60 s");
    field.assert_refused(b().shutdown_timeout(secs(61)), "61s");
    let field = Field("app_version", "1 to 200 bytes without control characters");
    field.assert_refused(b().app_version(""), "\"\"");
    let long = "v".repeat(201);
    field.assert_refused(b().app_version(&long), &long);
    field.assert_refused(b().app_version("1\n"), "1\\n");
    let field = Field("retained_slices", "1 to 10000");
    field.assert_refused(b().retained_slices(0), "0");
    field.assert_refused(b().retained_slices(10_001), "10001");
    let field = Field("max_contexts", "1 to 100000");
    field.assert_refused(b().max_contexts(0), "0");
    field.assert_refused(b().max_contexts(100_001), "100001");
    let field = Field("max_counters", "1 to 100000");
    field.assert_refused(b().max_counters(0), "0");
    let field = Field("replay_bytes", "0 to 1073741824");
    field.assert_refused(b().replay_bytes(2 << 30), "2147483648");
    let allowed = "1048576 to 1099511627776";
    let field = Field("memory_bytes", allowed);
    field.assert_refused(b().memory_bytes(1_000), "1000");
    let field = Field("pending_bytes", allowed);
    field.assert_refused(b().pending_bytes(1_000), "1000");
    let field = Field("query_bytes", allowed);
    field.assert_refused(b().query_bytes(1_000), "1000");
    field.assert_refused(b().query_bytes((1 << 40) + 1), "1099511627777");
    let field = Field("journal_bytes", "1048576 to 1073741824");
    field.assert_refused(b().journal_bytes((1 << 20) - 1), "1048575");
    field.assert_refused(b().journal_bytes(2 << 30), "2147483648");
    let field = Field("precisions", "1 to 16 different numbers of seconds");
    field.assert_refused(b().precisions([]), "[]");
    field.assert_refused(b().precisions([0, 5]), "[0, 5]");
    field.assert_refused(b().precisions([5, 60, 5]), "[5, 60, 5]");
    field.assert_refused(b().precisions([u32::MAX]), "4294967295");
    field.assert_refused(b().precisions(1..18), "17");
    let field = Field("prefix", "at most 128 bytes without control characters");
    field.assert_refused(b().prefix("a\nb"), "\\n");
    field.assert_refused(b().prefix("x".repeat(129)), "xxx");
    let field = Field("service", "1 to 100 bytes");
    field.assert_refused(b().service(""), "\"\"");
    let field = Field("instance", "1 to 100 bytes without control characters");
    field.assert_refused(b().instance(""), "\"\"");
    field.assert_refused(b().instance("web\t1"), "\\t");
    field.assert_refused(b().instance("x".repeat(101)), "xxx");
    let field = Field("queue_time_header", "x-request-start");
    for name in ["", "x request start", "x-request-start:", "x\n"] {
        field.assert_refused(b().queue_time_header(name), &format!("{name:?}"));
    }
    let field = Field("ignore", "begins with a slash");
    field.assert_refused(b().ignore(["healthz"]), "healthz");
    let field = Field("declare_counters", "must not be hits, errors or micros");
    field.assert_refused(b().declare_counters(["sales", "hits"]), "hits");
    field.assert_refused(b().declare_counters(["micros:x"]), "micros:x");
    field.assert_refused(b().declare_counters([""]), "\"\"");
}

#[test]
fn invalid_targets_of_contexts_are_refused() {
    const FIELD: &str = "target_for";
    let b = Pulse::builder;
    let (ms, hour) = (Duration::from_millis, Duration::from_secs(3_600));
    let least = Duration::from_micros(1);
    let longest = format!("GET /{}", "x".repeat(251));
    for (context, duration, share) in [
        ("POST /checkout", least, f64::MIN_POSITIVE),
        ("POST /checkout", hour, 1.0 - f64::EPSILON),
        (&longest, ms(250), 0.995),
    ] {
        let builder = b().target_for(context, duration, share);
        assert!(builder.build_with_tasks().is_ok(), "{context} {share}");
    }
    let field = |allowed| Field(FIELD, allowed);
    let target = |duration, share| b().target_for("POST /checkout", duration, share);
    for (duration, value) in [
        (Duration::ZERO, "0ns"),
        (Duration::from_nanos(999), "999ns"),
        (hour + least, "3600.000001s"),
        (Duration::MAX, "18446744073709551615"),
    ] {
        field("1 µs to 1 h").assert_refused(target(duration, 0.9), value);
    }
    for (share, value) in [
        (0.0, "0.0 of"),
        (1.0, "1.0 of"),
        (-0.5, "-0.5 of"),
        (99.5, "99.5 of"),
        (f64::NAN, "NaN of"),
        (f64::INFINITY, "inf of"),
    ] {
        field("between 0 and 1").assert_refused(target(ms(250), share), value);
    }
    let too_long = format!("{longest}x");
    for name in ["", "/checkout", "GET /\n", "GET /\u{202e}", &too_long] {
        let builder = b().target_for(name, ms(250), 0.9);
        field("method and route template").assert_refused(builder, &format!("{name:?}"));
    }
    field("`target`").assert_refused(b().target_for("<all>", ms(250), 0.9), "<all>");
    let twice = b().target_for("GET /", ms(250), 0.9);
    let twice = twice.target_for("GET /", ms(1), 0.5);
    field("one target").assert_refused(twice, "\"GET /\"");
    let many = |targets| {
        (0..targets).fold(b(), |builder, n| {
            builder.target_for(format!("GET /{n}"), ms(250), 0.9)
        })
    };
    assert!(many(100).build_with_tasks().is_ok());
    field("at most 100").assert_refused(many(101), "101 times");
}

#[test]
fn a_store_that_was_opened_with_other_precisions_is_refused() {
    let store = |samples| {
        let precisions = Precisions::new([5, 60], samples);
        Arc::new(MemoryStore::new(precisions, Clock::system()))
    };
    let builder = || Pulse::builder().precisions([60, 5]).retained_slices(90);
    let (value, allowed) = ("5 s x 91, 60 s x 91", "5 s x 90, 60 s x 90");
    assert_refused(builder().store(store(91)), "store", value, allowed);
    builder()
        .store(store(90))
        .build_with_tasks()
        .map(drop)
        .unwrap();
}

#[test]
fn the_ends_of_each_range_are_allowed() {
    let b = Pulse::builder;
    for builder in [
        b().flush_interval(Duration::from_millis(10)),
        b().flush_interval(Duration::from_secs(60)),
        b().target(Duration::from_micros(1)),
        b().target(Duration::from_secs(3_600)),
        b().clean_interval(Duration::from_secs(3_600)),
        b().app_version("v".repeat(200)),
        b().retained_slices(1).precisions([31_536_000]),
        b().journal_bytes(1 << 20),
        b().journal_bytes(1 << 30),
        b().prefix("").declare_counters(["sales", "hit"]),
    ] {
        builder.build_with_tasks().map(drop).unwrap();
    }
}

#[test]
fn build_is_refused_without_a_runtime() {
    let error = Pulse::builder().build().map(|_| ()).unwrap_err();
    assert_eq!(error.field(), "runtime");
    assert!(error.to_string().contains("build_with_tasks"));
}

#[cfg(feature = "redis")]
#[test]
fn timeouts_of_redis_out_of_range_are_refused() {
    let b = Pulse::builder;
    let fields = ["redis_connection_timeout", "redis_response_timeout"];
    let [connection, response] = fields.map(|field| Field(field, "10 ms to 10 s"));
    for (millis, shown) in [(9, "9ms"), (10_001, "10.001s")] {
        let timeout = Duration::from_millis(millis);
        connection.assert_refused(b().redis_connection_timeout(timeout), shown);
        response.assert_refused(b().redis_response_timeout(timeout), shown);
    }
    for timeout in [10, 10_000].map(Duration::from_millis) {
        let builder = b().redis("redis://127.0.0.1:1/");
        let builder = builder.redis_connection_timeout(timeout);
        let builder = builder.redis_response_timeout(timeout);
        builder.build_with_tasks().map(|_| ()).unwrap();
    }
}

/// `crates/redis` tests more invalid URLs.
#[cfg(feature = "redis")]
#[test]
fn invalid_settings_of_servers_clusters_and_sentinels_are_refused() {
    let b = Pulse::builder;
    let allowed = "redis://[user:password@]host[:port][/database]";
    assert_refused(b().redis("not a url"), "redis", "not a url", allowed);
    #[cfg(not(feature = "redis-tls"))]
    {
        let (url, allowed) = ("rediss://127.0.0.1/", "needs the feature `redis-tls`");
        assert_refused(b().redis(url), "redis", url, allowed);
    }
    let none: [&str; 0] = [];
    for (builder, field) in [
        (b().redis_cluster(none), "redis_cluster"),
        (b().redis_sentinel("shop", none), "redis_sentinel"),
    ] {
        assert_refused(builder, field, "without a URL", "redis://");
    }
    let cluster = || b().redis_cluster(["redis://me:secret@a", "redis://me:secret@b"]);
    for prefix in ["", "pulse:"] {
        let builder = cluster().prefix(prefix);
        assert_refused(builder, "prefix", &format!("{prefix:?}"), "use `{pulse}:`");
    }
    for builder in [
        b().redis("redis://127.0.0.1:1/"),
        cluster(),
        cluster().service("shop"),
        cluster().prefix("shop:{1}:"),
        b().redis_sentinel("redis://me:secret@shop/2", ["redis://:other@a"]),
    ] {
        builder.build_with_tasks().map(drop).unwrap();
    }
}

#[cfg(not(feature = "redis"))]
#[test]
fn a_build_without_redis_names_the_feature() {
    for builder in [
        Pulse::builder().redis_cluster(["redis://user:secret@127.0.0.1/"]),
        Pulse::builder().redis_sentinel("shop", ["redis://user:secret@127.0.0.1/"]),
    ] {
        assert_refused(builder, "redis", "", "features = [\"redis\"]");
    }
    let builder = Pulse::builder().redis("redis://user:secret@127.0.0.1/");
    assert_refused(builder, "redis", "a URL", "features = [\"redis\"]");
}

#[cfg(not(feature = "file"))]
#[test]
fn a_build_without_files_names_the_feature() {
    let path = "/var/lib/shop/pulse.redb";
    assert_refused(
        Pulse::builder().file(path),
        "file",
        path,
        "features = [\"file\"]",
    );
}

#[cfg(feature = "row-cache")]
#[tokio::test]
async fn a_row_cache_without_redis_is_refused() {
    use tower_pulse::row_cache::RowCache;
    let build = |builder: Builder| {
        let (pulse, _tasks) = builder.build_with_tasks().unwrap();
        let loader = async |id: String| Ok::<_, String>(Some(id));
        RowCache::builder(&pulse).loader(loader).build()
    };
    #[cfg(feature = "file")]
    let dir = pulse_rig::process::TempDir::new("rows");
    let b = Pulse::builder;
    for (builder, value) in [
        (b(), "memory"),
        #[cfg(feature = "file")]
        (b().file(dir.path().join("rows.redb")), "rows.redb"),
    ] {
        let error = build(builder).unwrap_err();
        assert_eq!(error.field(), "store", "{error}");
        for part in [value, "Redis", "`redis`"] {
            assert!(error.to_string().contains(part), "{error} lacks {part}");
        }
    }
    build(Pulse::builder().redis("redis://127.0.0.1:1/")).unwrap();
}

/// Without this error, the last store would silently replace the first.
#[cfg(all(feature = "file", feature = "redis"))]
#[test]
fn two_stores_are_refused() {
    let b = Pulse::builder;
    let (url, path) = ("redis://127.0.0.1/", "/tmp/pulse.redb");
    let memory = || b().open_store().unwrap();
    let sentinel = b().store(memory()).redis_sentinel("shop", [url]);
    for (builder, second, first) in [
        (b().file(path).redis(url), "redis", "`file`"),
        (b().redis(url).file(path), "file", "`redis`"),
        (b().redis(url).redis(url), "redis", "`redis`"),
        (
            b().redis_cluster([url]).store(memory()),
            "store",
            "`redis_cluster`",
        ),
        (sentinel, "redis_sentinel", "`store`"),
    ] {
        let allowed = format!("{first} has set one before");
        assert_refused(builder, second, "a second store", &allowed);
    }
}

#[tokio::test]
async fn an_instance_has_the_name_of_its_host() {
    let names = [0; 2].map(|_| Pulse::builder().build().unwrap().health().instance);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for name in &names {
        let suffix = name.strip_prefix(host.trim()).unwrap();
        assert!(suffix.len() == 7 && suffix.starts_with('-'), "{name}");
    }
    assert_ne!(names[0], names[1]);
}
