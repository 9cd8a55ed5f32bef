//! The choice of a store.

#[cfg(feature = "file")]
use std::time::Duration;

use super::{Backend, Builder};
#[cfg(feature = "file")]
use tower_pulse_file::FileOptions;
#[cfg(feature = "redis")]
use tower_pulse_redis::RedisOptions;

#[cfg(not(all(feature = "file", feature = "redis")))]
fn without_feature(feature: &'static str, value: String) -> Backend {
    let allowed =
        format!("it needs the feature `{feature}`: tower-pulse = {{ features = [\"{feature}\"] }}");
    Backend::Missing(super::BuildError::new(feature, value, allowed))
}

impl<Of> Builder<Of> {
    fn set_store(mut self, method: &'static str, backend: Backend) -> Self {
        self.backend = backend;
        self.store_set_by.push(method);
        self
    }

    /// Keeps everything in Redis at this URL (`redis://[user:password@]host[:port][/db]`, `rediss://…`, `unix:///path`
    /// or `redis+unix:///path`), shared by all instances. An unreachable server is no error: the service starts and
    /// serves, and [`Health`](crate::Health) reports the problem. [`build`](Self::build) refuses an invalid URL, with
    /// an error that does not show a password:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let error = tower_pulse::Pulse::builder().redis("redis://:secret@:6379").build().unwrap_err();
    /// assert_eq!(error.field(), "redis");
    /// assert!(!error.to_string().contains("secret"));
    /// # }
    /// ```
    ///
    /// Needs the feature `redis`; without it, [`build`](Self::build) returns an error.
    pub fn redis(self, url: impl Into<String>) -> Self {
        #[cfg(feature = "redis")]
        let backend = Backend::Redis(RedisOptions::new(&url.into()).map(Box::new));
        // The error omits the URL, which may have a password.
        #[cfg(not(feature = "redis"))]
        let (_, backend) = (url, without_feature("redis", "a URL".to_owned()));
        self.set_store("redis", backend)
    }

    /// Keeps everything in the Redis server of a client that was configured elsewhere, with the client's address,
    /// database, credentials, TLS and TCP settings. The store opens connections of its own, with the timeouts and
    /// retries of this crate, because exact counts depend on them.
    #[cfg(feature = "redis")]
    pub fn redis_client(self, client: redis::Client) -> Self {
        let options = client.get_connection_info().clone().into();
        self.set_store("redis_client", Backend::Redis(Ok(Box::new(options))))
    }

    /// Keeps everything in a Redis Cluster. The URLs are those of some nodes, `redis://[user:password@]host[:port]` or
    /// `rediss://…`, and differ in host and port only. All keys are in one slot: with `.service("shop")`, they begin
    /// with `{pulse:shop}:`. The store asks the nodes which node owns the slot, and follows when the slot moves or a
    /// replica takes over.
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
    /// Needs the feature `redis`; without it, [`build`](Self::build) returns an error.
    pub fn redis_cluster<U: AsRef<str>>(self, urls: impl IntoIterator<Item = U>) -> Self {
        #[cfg(feature = "redis")]
        let backend = Backend::Redis(RedisOptions::cluster(urls).map(Box::new));
        #[cfg(not(feature = "redis"))]
        let (_, backend) = (urls, without_feature("redis", "a cluster".to_owned()));
        self.set_store("redis_cluster", backend)
    }

    /// Keeps everything in the Redis that Sentinel names as the primary of a service. `service` is the name after
    /// `sentinel monitor` in the configuration of Sentinel. `urls` are the URLs of some Sentinels, with the user and
    /// password of the Sentinels, if they have any. If the primary has a user, a password, a database or TLS of its
    /// own, `service` is a URL whose host is that name:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
    /// let builder = tower_pulse::Pulse::builder().redis_sentinel("mymaster", sentinels);
    /// // Database 2 of a primary, whose password differs from that of the Sentinels.
    /// let builder = tower_pulse::Pulse::builder()
    ///     .redis_sentinel("redis://app:secret@mymaster/2", ["redis://watcher:other@10.0.0.1:26379"]);
    /// # builder.build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// With `rediss://` URLs of Sentinels, the primary is reached by TLS as well. The store asks the Sentinels for the
    /// primary at the start, after a failed connection or a late answer, and every few seconds.
    ///
    /// Needs the feature `redis`; without it, [`build`](Self::build) returns an error.
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
        self.set_store("redis_sentinel", backend)
    }
}

impl Builder {
    /// Keeps everything in one file of this machine. If the file does not exist, the store creates it. The data
    /// survives a restart, and needs no server. The file serves one process at a time. During a deploy, the new process
    /// records in memory until the old process has ended, and then writes that data into the file.
    ///
    /// A directory that is missing, a full disk or a damaged file is no error of [`build`](Self::build): the service
    /// starts and serves, and [`Health`](crate::Health) reports the problem. See [`guide::file`](crate::guide::file).
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder().file("/var/lib/shop/pulse.redb").build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// Needs the feature `file`; without it, [`build`](Self::build) returns an error.
    pub fn file(self, path: impl Into<std::path::PathBuf>) -> Self {
        #[cfg(feature = "file")]
        let backend = Backend::File(FileOptions::new(path));
        #[cfg(not(feature = "file"))]
        let backend = without_feature("file", path.into().display().to_string());
        self.set_store("file", backend)
    }

    /// The maximum size of the file in bytes: 16 MiB to 64 GiB, 256 MiB by default. Only a quarter to a half of the
    /// file holds data. When the file is full, the store removes the oldest minutes first, then the oldest half hours,
    /// and health reports this. The file shrinks only when a process opens or closes it. Has no effect on other stores.
    #[cfg(feature = "file")]
    pub fn file_bytes(mut self, bytes: u64) -> Self {
        self.file_bytes = bytes;
        self
    }

    /// The time between two commits that make the file durable: 1 s to 60 s, 1 s by default. A crash of the process or
    /// a power cut loses at most the requests of this time and of one flush interval. After
    /// [`shutdown`](crate::Pulse::shutdown) nothing is missing. With a longer time, the store writes less. Has no
    /// effect on other stores.
    #[cfg(feature = "file")]
    pub fn durable_every(mut self, every: Duration) -> Self {
        self.durable_every = every;
        self
    }

    /// Keeps everything in a [store](crate::store) that was opened elsewhere, for example to share it. If no store is
    /// set, everything is kept in the memory of this process. The store keeps the [`prefix`](Self::prefix), the bounds
    /// and the timeouts with which it was opened. Its precisions must be those of this builder.
    pub fn store(self, store: impl Into<crate::store::Store>) -> Self {
        self.set_store("store", Backend::Custom(store.into().into()))
    }
}
