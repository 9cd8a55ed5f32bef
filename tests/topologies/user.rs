//! A user whose password is replaced while it is used.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tower_pulse_redis::{RedisCredentials, RedisOptions};

use crate::rig::cluster::RedisCluster;

/// A user of all nodes of a cluster. The application knows the user's password.
#[derive(Clone)]
pub struct User {
    name: String,
    known: Arc<Mutex<Known>>,
    asked: Arc<AtomicU64>,
}

#[derive(Default)]
struct Known {
    password: String,
    /// The old password, given once more before the new one, as a cache of passwords might.
    stale: Option<String>,
}

impl User {
    /// Makes a user of this cluster that may do all below a prefix.
    pub async fn new(cluster: &RedisCluster, name: &str, prefix: &str) -> Self {
        let keys = format!("~{prefix}*");
        let words = ["ACL", "SETUSER", name, "on", &keys, "+@all"];
        cluster.tell_all(&words).await;
        let user = Self {
            name: name.to_owned(),
            known: Arc::default(),
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
        {
            let mut known = self.known.lock().unwrap();
            let before = std::mem::replace(&mut known.password, password);
            known.stale = Some(before).filter(|before| !before.is_empty());
        }
        cluster
            .tell_all(&["CLIENT", "KILL", "USER", &self.name])
            .await;
    }

    /// Lets the application give the user's password.
    pub fn given_to(&self, options: RedisOptions) -> RedisOptions {
        let user = self.clone();
        options.credentials(move || {
            let user = user.clone();
            async move {
                user.asked.fetch_add(1, SeqCst);
                let mut known = user.known.lock().unwrap();
                let password = known.stale.take().unwrap_or(known.password.clone());
                Ok::<_, std::io::Error>(RedisCredentials::new(&*user.name, password))
            }
        })
    }

    /// How often the application was asked.
    pub fn asked(&self) -> u64 {
        self.asked.load(SeqCst)
    }
}
