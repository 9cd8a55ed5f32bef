//! Compares the content of a file, and the answers from it, with the fixtures.

use std::path::Path;
use std::sync::Arc;

use redb::backends::InMemoryBackend;
use redb::{ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableHandle};
use tower_pulse::store::Store as StoreHandle;
use tower_pulse_core::store::Query;
use tower_pulse_file::{FileOptions, FileStore};

use crate::frozen::mask::masked;
use crate::frozen::past::{START, Time};
use crate::frozen::{
    BEFORE_A_CHANGE, LAST, answers, assert_stored, fixture, is_freezing, past, write_fixture,
};
use crate::rig::process::{TempDir, is_held};
use crate::rig::wait::until;

const FILE: &str = "file.parts";
const ANSWERS: &str = "file.json";

/// The length of a block. A fixture leaves out the blocks that are all zeros.
const BLOCK: usize = 64;
/// The length of the page that `crates/file` writes before the database.
const HEADER: usize = 4_096;

/// The length of the file, and then the number and the bytes of each block that is not all zeros.
fn parts(file: &[u8]) -> Vec<u8> {
    let mut parts = (file.len() as u64).to_be_bytes().to_vec();
    for (number, block) in (0u32..).zip(file.chunks(BLOCK)) {
        if block.iter().any(|byte| *byte != 0) {
            parts.extend_from_slice(&number.to_be_bytes());
            parts.extend_from_slice(block);
        }
    }
    parts
}

fn whole(parts: &[u8]) -> Vec<u8> {
    let (length, parts) = parts.split_first_chunk().unwrap();
    let mut file = vec![0; u64::from_be_bytes(*length) as usize];
    for part in parts.chunks(4 + BLOCK) {
        let (number, block) = part.split_first_chunk().unwrap();
        let at = u32::from_be_bytes(*number) as usize * BLOCK;
        file[at..at + block.len()].copy_from_slice(block);
    }
    file
}

async fn open(path: &Path, time: &Time) -> StoreHandle {
    let options = FileOptions::new(path).unwrap().clock(time.clock.clone());
    let store = Arc::new(FileStore::open(options).unwrap());
    until("the file is open", async || store.fleet(0).await.is_ok()).await;
    StoreHandle::from(store)
}

async fn wait_until_released(path: &Path) {
    until("the file is released", async || !is_held(path)).await;
}

async fn record_past(dir: &TempDir) -> std::path::PathBuf {
    let path = dir.path().join("pulse.redb");
    let time = Time::new(START);
    let store = open(&path, &time).await;
    past::record(&store, &time).await;
    drop(store);
    wait_until_released(&path).await;
    path
}

#[tokio::test]
async fn a_file_of_0_1_0_is_read_and_continued() {
    let dir = TempDir::new("frozen");
    let path = dir.path().join("pulse.redb");
    std::fs::write(&path, whole(&std::fs::read(fixture(LAST, FILE)).unwrap())).unwrap();
    let time = Time::to_read();
    let answers = answers::ask(ANSWERS, &open(&path, &time).await, &time).await;
    answers::assert_as_before(ANSWERS, &answers);
}

#[tokio::test]
async fn this_version_stores_the_same_file_as_0_1_0() {
    let dir = TempDir::new("frozen");
    let path = record_past(&dir).await;
    let now = std::fs::read(&path).unwrap();
    if is_freezing() {
        write_fixture(FILE, &parts(&now));
        let time = Time::to_read();
        let answers = answers::ask(ANSWERS, &open(&path, &time).await, &time).await;
        return write_fixture(ANSWERS, answers::to_lines(&answers).as_bytes());
    }
    let before = whole(&std::fs::read(fixture(LAST, FILE)).unwrap());
    // The file begins with the name and the version of its format. The id of the process that holds the file follows.
    assert_eq!(now[..20], before[..20], "{BEFORE_A_CHANGE}");
    assert_stored(&content(before), &content(now));
}

/// Tables that are sorted by the random ids of instances: `crates/file/src/kept/tests.rs` tests their bytes.
const OF_INSTANCES: [&str; 2] = ["journal", "state"];

/// The fields of the tables, sorted, one per line, with masked random names. The tables `OF_INSTANCES` have only their
/// names.
fn content(file: Vec<u8>) -> Vec<String> {
    let database = redb::Database::builder()
        .create_with_backend(behind_first_page(file))
        .unwrap();
    let read = database.begin_read().unwrap();
    let mut lines = Vec::new();
    for table in read.list_tables().unwrap() {
        let name = table.name().to_owned();
        if OF_INSTANCES.contains(&&*name) {
            lines.push(name);
            continue;
        }
        let table = TableDefinition::<&[u8], &[u8]>::new(&name);
        for field in read.open_table(table).unwrap().iter().unwrap() {
            let (key, value) = field.unwrap();
            let [key, value] = [key.value(), value.value()].map(masked);
            let [key, value] = [key, value].map(|bytes| bytes.escape_ascii().to_string());
            lines.push(format!("{name}: {key} = {value}"));
        }
    }
    lines.sort();
    lines
}

/// The database behind the first page of a file, in memory.
fn behind_first_page(mut file: Vec<u8>) -> InMemoryBackend {
    let database = file.split_off(HEADER);
    let backend = InMemoryBackend::new();
    backend.set_len(database.len() as u64).unwrap();
    backend.write(0, &database).unwrap();
    backend
}
