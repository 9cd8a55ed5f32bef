//! A user of a cluster whose password is replaced while a service uses the password.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tower_pulse_redis::{RedisCredentials, RedisOptions};

use crate::rig::cluster::RedisCluster;

/// A user of all nodes of a cluster. The application knows the user's password.
#[derive(Clone)]
pub struct User {
    name: String,
    /// The current password is the last. The application gives an old password once more before the next password, as a
    /// cache of passwords might do.
    passwords: Arc<Mutex<Vec<String>>>,
    asked: Arc<AtomicU64>,
}

impl User {
    /// Adds a user to all nodes of a cluster. The user may use all commands on keys with a prefix.
    pub async fn new(cluster: &RedisCluster, name: &str, prefix: &str) -> Self {
        let keys = format!("~{prefix}*");
        let words = ["ACL", "SETUSER", name, "on", &keys, "+@all"];
        cluster.tell_all(&words).await;
        let user = Self {
            name: name.to_owned(),
            passwords: Arc::default(),
            asked: Arc::default(),
        };
        user.rotate(cluster).await;
        user
    }

    /// Replaces the password, and closes the user's connections.
    pub async fn rotate(&self, cluster: &RedisCluster) {
        let password = format!("{:032x}", fastrand::u128(..));
        let set = format!(">{password}");
        let words = ["ACL", "SETUSER", &self.name, "resetpass", &set];
        cluster.tell_all(&words).await;
        self.passwords.lock().unwrap().push(password);
        let kill = ["CLIENT", "KILL", "USER", &self.name];
        cluster.tell_all(&kill).await;
    }

    /// Options with which the store asks the application for the user's password.
    pub fn with_credentials(&self, options: RedisOptions) -> RedisOptions {
        let user = self.clone();
        options.credentials(move || {
            let user = user.clone();
            async move {
                user.asked.fetch_add(1, SeqCst);
                let mut passwords = user.passwords.lock().unwrap();
                let password = match passwords.len() {
                    1 => passwords[0].clone(),
                    _ => passwords.remove(0),
                };
                Ok::<_, std::io::Error>(RedisCredentials::new(&*user.name, password))
            }
        })
    }

    pub fn asked(&self) -> u64 {
        self.asked.load(SeqCst)
    }
}
