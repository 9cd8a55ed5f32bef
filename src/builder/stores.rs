//! Where everything is kept.

#[cfg(feature = "file")]
use std::time::Duration;

use super::{Backend, Builder};
#[cfg(feature = "file")]
use tower_pulse_file::FileOptions;
#[cfg(feature = "redis")]
use tower_pulse_redis::RedisOptions;

/// A store of which this build does not have the feature.
#[cfg(not(all(feature = "file", feature = "redis")))]
fn without_feature(feature: &'static str, value: String) -> Backend {
    let allowed =
        format!("it needs the feature `{feature}`: tower-pulse = {{ features = [\"{feature}\"] }}");
    Backend::Missing(super::BuildError::new(feature, value, allowed))
}

impl<Of> Builder<Of> {
    /// Sets the store. `method` is the one that names it.
    fn kept_in(mut self, method: &'static str, backend: Backend) -> Self {
        self.backend = backend;
        let [first, second] = &mut self.store_named_by;
        match first {
            None => *first = Some(method),
            Some(_) => *second = Some(method),
        }
        self
    }

    /// Keeps everything in Redis at this URL (`redis://[user:password@]host[:port][/db]`, `rediss://…`,
    /// `unix:///path` or `redis+unix:///path`), shared by
    /// all instances. A server that is away is no error: the service starts and serves, and
    /// [`Health`](crate::Health) says so. What is no URL is refused by [`build`](Self::build), whose error does not show
    /// a password:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let error = tower_pulse::Pulse::builder().redis("redis://:secret@:6379").build().unwrap_err();
    /// assert_eq!(error.field(), "redis");
    /// assert!(!error.to_string().contains("secret"));
    /// # }
    /// ```
    ///
    /// Needs the feature `redis`: [`build`](Self::build) says so where it is missing.
    pub fn redis(self, url: impl Into<String>) -> Self {
        #[cfg(feature = "redis")]
        let backend = Backend::Redis(RedisOptions::new(&url.into()).map(Box::new));
        #[cfg(not(feature = "redis"))]
        let backend = {
            // Not the URL, which may have a password in it.
            let _: String = url.into();
            without_feature("redis", "a URL".to_owned())
        };
        self.kept_in("redis", backend)
    }

    /// Keeps everything in the Redis server of a client that is configured elsewhere: its address,
    /// database, credentials, TLS and TCP settings are taken over. The connections are opened anew, with
    /// timeouts and retries of this crate, since exact counts depend on both.
    #[cfg(feature = "redis")]
    pub fn redis_client(self, client: redis::Client) -> Self {
        let options = client.get_connection_info().clone().into();
        self.kept_in("redis_client", Backend::Redis(Ok(Box::new(options))))
    }

    /// Keeps everything in a Redis Cluster, of which these are some nodes: `redis://[user:password@]host[:port]` or
    /// `rediss://…`, which differ in host and port only. All keys of the service are in one slot: with a
    /// [`service`](Self::service), they begin with `{pulse:shop}:`. The node that owns the slot is found from any node,
    /// and followed when the slot moves or a replica takes its place.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let nodes = ["redis://127.0.0.1:7000", "redis://127.0.0.1:7001"];
    /// let builder = tower_pulse::Pulse::builder().redis_cluster(nodes).service("shop");
    /// let error = builder.clone().prefix("shop:").build().unwrap_err();
    /// assert!(error.to_string().contains("use `{shop}:`"));
    /// # builder.build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// Needs the feature `redis`: [`build`](Self::build) says so where it is missing.
    pub fn redis_cluster<U: AsRef<str>>(self, urls: impl IntoIterator<Item = U>) -> Self {
        #[cfg(feature = "redis")]
        let backend = Backend::Redis(RedisOptions::cluster(urls).map(Box::new));
        #[cfg(not(feature = "redis"))]
        let (_, backend) = (urls, without_feature("redis", "a cluster".to_owned()));
        self.kept_in("redis_cluster", backend)
    }

    /// Keeps everything in the Redis that Sentinel names as the primary of a service: the name after `sentinel monitor`,
    /// and the URLs of some Sentinels, with Sentinel's own user and password, if it has any. Where the primary has a user, a
    /// password, a database or TLS of its own, a URL with the name in the place of the host takes the name's place:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
    /// let builder = tower_pulse::Pulse::builder().redis_sentinel("mymaster", sentinels);
    /// // The database 2 of a primary with a password, and Sentinels with another one.
    /// let builder = tower_pulse::Pulse::builder()
    ///     .redis_sentinel("redis://app:secret@mymaster/2", ["redis://watcher:other@10.0.0.1:26379"]);
    /// # builder.build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// With Sentinels behind `rediss://`, the primary is behind TLS as well. The Sentinels are asked at each connection, and
    /// every few seconds, so that a failover is followed.
    ///
    /// Needs the feature `redis`: [`build`](Self::build) says so where it is missing.
    pub fn redis_sentinel<U: AsRef<str>>(
        self,
        service: impl AsRef<str>,
        urls: impl IntoIterator<Item = U>,
    ) -> Self {
        #[cfg(feature = "redis")]
        let backend = Backend::Redis(RedisOptions::sentinel(service.as_ref(), urls).map(Box::new));
        #[cfg(not(feature = "redis"))]
        let backend = {
            let _ = (service, urls);
            without_feature("redis", "a service of Sentinels".to_owned())
        };
        self.kept_in("redis_sentinel", backend)
    }
}

impl Builder {
    /// Keeps everything in one file of this machine, which is made if it does not exist: history survives a restart,
    /// without a server. The file serves one process at a time. The process of a deploy that starts while the old one
    /// still holds the file records in memory, and brings that into the file when the old one has ended.
    ///
    /// A directory that is missing, a full disk or a damaged file is no error of [`build`](Self::build): the service
    /// starts and serves, and [`Health`](crate::Health) says what is wrong.
    /// [`guide::file`](crate::guide::file) says more.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder().file("/var/lib/shop/pulse.redb").build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// Needs the feature `file`: [`build`](Self::build) says so where it is missing.
    pub fn file(self, path: impl Into<std::path::PathBuf>) -> Self {
        #[cfg(feature = "file")]
        let backend = Backend::File(FileOptions::new(path));
        #[cfg(not(feature = "file"))]
        let backend = without_feature("file", path.into().display().to_string());
        self.kept_in("file", backend)
    }

    /// The most bytes of the file: 16 MiB to 64 GiB, 256 MiB by default. A third to a half of them is data. Above that,
    /// the oldest minutes are removed first, then the oldest half hours, and health says so. A file does not shrink.
    /// Without effect on a store elsewhere.
    #[cfg(feature = "file")]
    pub fn file_bytes(mut self, bytes: u64) -> Self {
        self.file_bytes = bytes;
        self
    }

    /// How often the file is made durable: 1 s to 60 s, 1 s by default. After a crash of the process or a power cut at most
    /// the requests of this time and of a flush interval are missing, which go together by default; after
    /// [`shutdown`](crate::Pulse::shutdown) none is. A longer time writes less. Without effect on a store elsewhere.
    #[cfg(feature = "file")]
    pub fn durable_every(mut self, every: Duration) -> Self {
        self.durable_every = every;
        self
    }

    /// Keeps everything in one of the stores of [`store`](crate::store) that was made elsewhere, for
    /// example to share it. Without it: in the memory of this process. The
    /// [`prefix`](Self::prefix), the bounds of the store and the timeouts are those that it was made with. Its
    /// precisions must be those of this builder.
    pub fn store(self, store: impl Into<crate::store::Store>) -> Self {
        self.kept_in("store", Backend::Custom(store.into().into()))
    }
}
