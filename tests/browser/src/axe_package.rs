//! axe-core, the accessibility checker, from its package: for tests only, and never part of this repository.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use sha2::{Digest as _, Sha512};

use crate::rig::process::TempDir;

const VERSION: &str = "4.14.1";

/// Of the package's archive. npm shows the same as `dist.integrity`, in base64.
const SHA_512: &str = "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b73\
                       4f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5";

/// The script in the archive.
const SCRIPT: &str = "package/axe.min.js";

/// The script, which the first test that asks downloads into the target directory.
///
/// Panics with one sentence if it is not there and cannot be had.
pub fn script() -> &'static str {
    static TEXT: OnceLock<Result<String, String>> = OnceLock::new();
    let text = TEXT.get_or_init(|| unpacked(&archive()?));
    text.as_deref().unwrap_or_else(|error| panic!("{error}"))
}

/// The bytes of the archive, from the target directory or else from npm's registry.
fn archive() -> Result<Vec<u8>, String> {
    let file_name = format!("axe-core-{VERSION}.tgz");
    let cache = target_dir().join("axe-core");
    let cached = cache.join(&file_name);
    if let Ok(bytes) = std::fs::read(&cached)
        && sha_512(&bytes) == SHA_512
    {
        return Ok(bytes);
    }
    let bytes = download(&file_name)?;
    let digest = sha_512(&bytes);
    if digest != SHA_512 {
        return Err(format!(
            "axe-core {VERSION} was downloaded with the SHA-512 {digest} instead of {SHA_512}"
        ));
    }
    // Another process may do the same: each moves a whole file.
    let part = cache.join(format!("{file_name}.{}", std::process::id()));
    let kept = std::fs::create_dir_all(&cache)
        .and_then(|()| std::fs::write(&part, &bytes))
        .and_then(|()| std::fs::rename(&part, &cached));
    kept.map_err(|error| format!("cannot write {}: {error}", cached.display()))?;
    Ok(bytes)
}

/// Lets npm fetch the archive, as it knows how the registry is reached from here.
fn download(file_name: &str) -> Result<Vec<u8>, String> {
    let dir = TempDir::new("axe");
    let package = format!("axe-core@{VERSION}");
    let failed = |why: String| {
        format!(
            "the accessibility checks need {package} from npm's registry, which `npm pack` could not download: {why}"
        )
    };
    let command = [
        "npm",
        "pack",
        &package,
        "--loglevel=error",
        "--fetch-retries=1",
        "--fetch-timeout=30000",
    ];
    run(&command, dir.path()).map_err(failed)?;
    std::fs::read(dir.path().join(file_name)).map_err(|error| failed(error.to_string()))
}

/// Runs a command. Its first complaint if it fails.
fn run(command: &[&str], dir: &Path) -> Result<(), String> {
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).current_dir(dir);
    let output = process
        .output()
        .map_err(|error| format!("{error}; run `make setup` or `apt-get install npm`"))?;
    if output.status.success() {
        return Ok(());
    }
    let complaints = String::from_utf8_lossy(&output.stderr);
    let first = complaints.lines().find(|line| !line.trim().is_empty());
    Err(first.unwrap_or("it gave no reason").to_owned())
}

fn unpacked(archive: &[u8]) -> Result<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    let unreadable =
        |error: std::io::Error| format!("axe-core {VERSION} cannot be unpacked: {error}");
    for entry in archive.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        if entry.path().map_err(unreadable)? == Path::new(SCRIPT) {
            let mut text = String::new();
            entry.read_to_string(&mut text).map_err(unreadable)?;
            return Ok(text);
        }
    }
    Err(format!("axe-core {VERSION} has no {SCRIPT}"))
}

fn sha_512(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha512::digest(bytes) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The directory that cargo builds into: the test stands in `target/PROFILE/deps`.
fn target_dir() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.ancestors()
        .nth(3)
        .expect("the target directory")
        .to_owned()
}
