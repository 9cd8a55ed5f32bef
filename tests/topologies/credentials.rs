//! Credentials that a server refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tower_pulse::StoreErrorKind;
use tower_pulse_core::store::Append;
use tower_pulse_redis::RedisCredentials;

use crate::rig::log::Log;
use crate::rig::shared;
use crate::topologies::place::{cluster_options, store};
use crate::topologies::user::User;

#[tokio::test]
async fn no_error_contains_a_wrong_password() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let (log, _guard) = Log::start();
    User::new(cluster, "wrong", &prefix).await;
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    let options = cluster_options(cluster).credentials(move || {
        counted.fetch_add(1, SeqCst);
        async { Ok::<_, std::io::Error>(("wrong", "hunter2")) }
    });
    let error = store(options, &prefix).hello().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Forbidden);
    assert!(asked.load(SeqCst) >= 2, "asked again after WRONGPASS");
    let text = format!("{error} {error:?} {}", log.text());
    assert!(!text.contains("hunter2"), "{text}");

    let options = cluster_options(cluster);
    let options = options.credentials(|| async {
        Err::<RedisCredentials, _>(std::io::Error::other("hunter2 is no token"))
    });
    let error = store(options, &prefix).hello().await.unwrap_err();
    let text = format!("{error} {error:?} {}", log.text());
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("redis_credentials"), "{text}");
}
