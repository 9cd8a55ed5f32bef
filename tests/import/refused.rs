//! Files that cannot be imported, and files that were.

use std::fs;
use std::time::Duration;

use http::StatusCode;
use tower_pulse::import::{FileImport, ImportErrorKind};
use tower_pulse::store::Store as Shared;

use crate::past::{import, import_into, record_crowd, redis};
use crate::service::Place;
use crate::stored;
use pulse_rig::server::RedisServer;
use pulse_rig::wait::until;

#[tokio::test]
async fn a_file_that_is_held_missing_foreign_or_newer() {
    let place = Place::new();
    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    let refused = async || {
        let error = import(&place)
            .run(Shared::from(store.clone()))
            .await
            .unwrap_err();
        (error.kind(), error.to_string())
    };
    assert_eq!(refused().await.0, ImportErrorKind::FileMissing);
    assert!(place.files().is_empty(), "no file was made");

    let service = place.start();
    service.is_open().await;
    let (kind, message) = refused().await;
    assert_eq!(kind, ImportErrorKind::FileHeld);
    assert!(message.contains("in this process"), "{message}");
    service.shutdown().await;
    place.released().await;

    let file = fs::read(place.path()).unwrap();
    for (bytes, expected) in [
        (
            b"SQLite format 3\0 and so on".to_vec(),
            ImportErrorKind::FileForeign,
        ),
        (Vec::new(), ImportErrorKind::FileForeign),
        (
            [&file[..16], &[0, 0, 0, 9], &file[20..]].concat(),
            ImportErrorKind::FileNewer,
        ),
        (file[..100].to_vec(), ImportErrorKind::FileUnusable),
        (
            file[..file.len() / 2].to_vec(),
            ImportErrorKind::FileUnusable,
        ),
    ] {
        fs::write(place.path(), &bytes).unwrap();
        let (kind, message) = refused().await;
        assert_eq!(kind, expected, "{message}");
        place.released().await;
        assert_eq!(fs::read(place.path()).unwrap().len(), bytes.len());
        assert_eq!(place.files(), ["pulse.redb"]);
    }
    for path in ["", "/tmp/"] {
        assert_eq!(FileImport::new(path).unwrap_err().field(), "file");
    }
}

#[tokio::test]
async fn a_second_import_does_nothing_also_days_later_or_of_a_copy() {
    let place = Place::new();
    record_crowd(&place, 20, 30).await;
    let copy = Place {
        dir: pulse_rig::process::TempDir::new("copy"),
        clock: place.clock.clone(),
        hand: place.hand.clone(),
    };
    fs::copy(place.path(), copy.path()).unwrap();
    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    import_into(&place, store.clone()).await.unwrap();
    let now = place.clock.now_seconds();
    let expected = stored::read(&*store, now, None).await;
    for place in [&place, &copy] {
        let error = import_into(place, store.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ImportErrorKind::AlreadyImported, "{error}");
    }
    expected.assert_same(&stored::read(&*store, now, None).await);
    place.hand.advance(Duration::from_secs(3 * 86_400));
    let error = import_into(&place, store.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ImportErrorKind::AlreadyImported, "{error}");

    // Another Redis that was empty gets it as well.
    let other = RedisServer::start().await;
    let store = redis(&other.url(), &place, None);
    import_into(&place, store).await.unwrap();
}

#[tokio::test]
async fn an_imported_file_is_read_and_not_recorded_into() {
    let place = Place::new();
    record_crowd(&place, 3, 5).await;
    let server = RedisServer::start().await;
    import_into(&place, redis(&server.url(), &place, None))
        .await
        .unwrap();
    place.released().await;
    let service = place.start();
    // Its first words may be that the import, which has just ended, still has it open.
    until("the file says why", async || {
        let warnings = service.warnings();
        warnings.contains("was imported into another store")
    })
    .await;
    service
        .pulse
        .record("GET /page/0", Duration::from_millis(1), StatusCode::OK);
    let error = service.pulse.flush().await.unwrap_err();
    assert!(error.to_string().contains("record there"), "{error}");
    let now = place.clock.now_seconds();
    let found = stored::read(&*service.store, now, None).await;
    assert_eq!(found.requests_of("GET /page/0")[&21_600], 5);
}

#[tokio::test]
async fn a_store_that_was_flushed_gets_it_anew_and_one_that_lost_its_state_alone_does_not() {
    let place = Place::new();
    record_crowd(&place, 20, 30).await;
    let server = RedisServer::start().await;
    let store = redis(&server.url(), &place, None);
    import_into(&place, store.clone()).await.unwrap();
    let now = place.clock.now_seconds();
    let expected = stored::read(&*store, now, None).await;
    let mut connection = server.connection().await;
    let () = redis::cmd("FLUSHALL")
        .query_async(&mut connection)
        .await
        .unwrap();
    import_into(&place, redis(&server.url(), &place, None))
        .await
        .unwrap();
    let found = stored::read(&*redis(&server.url(), &place, None), now, None).await;
    expected.assert_same(&found);
    let () = redis::cmd("DEL")
        .arg("pulse:pulse:state")
        .query_async(&mut connection)
        .await
        .unwrap();
    let store = redis(&server.url(), &place, None);
    let error = import_into(&place, store.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ImportErrorKind::StoreNotEmpty, "{error}");
    assert_eq!(
        stored::read(&*store, now, None).await.records,
        expected.records
    );
}
