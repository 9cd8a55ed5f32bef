//! Users whose passwords are replaced while they are used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tower_pulse::StoreErrorKind;
use tower_pulse_core::store::Append;
use tower_pulse_redis::{RedisCredentials, RedisOptions, RedisStore};

use crate::place::{cluster_options, end_exactly_in, pulse, readable_again, under_load};
use crate::rig::log::Log;
use crate::rig::shared;
use crate::service::Service;
use crate::user::User;

#[tokio::test]
async fn credentials_rotated_under_load_lose_nothing() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let user = User::new(cluster, "rotated", &prefix).await;
    let (service, load) = under_load(pulse(user.given_to(cluster_options(cluster)), &prefix)).await;
    for _ in 0..5 {
        let before = user.asked();
        user.rotate(cluster).await;
        service.flushed_again().await;
        // The first answer was the old password.
        assert!(user.asked() >= before + 2);
    }
    readable_again(&service).await;
    load.stop().await;
    end_exactly_in(&service, cluster, &prefix).await;
}

#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    let (cluster, prefix) = (shared::cluster().await, shared::prefix());
    let (log, _guard) = Log::start();
    User::new(cluster, "wrong", &prefix).await;
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    let options = cluster_options(cluster).credentials(move || {
        counted.fetch_add(1, SeqCst);
        async { Ok::<_, std::io::Error>(("wrong", "hunter2")) }
    });
    let store = RedisStore::open(options.prefix(&*prefix).unwrap()).unwrap();
    let error = store.hello().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Forbidden);
    assert!(asked.load(SeqCst) >= 2, "it is asked again after WRONGPASS");
    let told = format!("{error} {error:?} {}", log.text());
    assert!(!told.contains("hunter2"), "{told}");

    let options = cluster_options(cluster);
    let options = options.credentials(|| async {
        Err::<RedisCredentials, _>(std::io::Error::other("hunter2 is no token"))
    });
    let store = RedisStore::open(options.prefix(&*prefix).unwrap()).unwrap();
    let error = store.hello().await.unwrap_err();
    let told = format!("{error} {error:?} {}", log.text());
    assert!(!told.contains("hunter2"), "{told}");
    assert!(told.contains("redis_credentials"), "{told}");
}
