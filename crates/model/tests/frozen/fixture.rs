//! Reads and writes the text file of a version: packed values by name, in hexadecimal digits.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use data_encoding::HEXLOWER;

const WIDTH: usize = 112;

fn path(version: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/frozen");
    folder.join(format!("{version}.txt"))
}

pub(crate) fn read(version: &str) -> BTreeMap<String, Vec<u8>> {
    let text = std::fs::read_to_string(path(version)).expect("the file of the version");
    let (mut packed, mut name) = (BTreeMap::<String, Vec<u8>>::new(), String::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            None => {
                name = line.to_owned();
                packed.insert(name.clone(), Vec::new());
            }
            Some(digits) => {
                let bytes = HEXLOWER.decode(digits.as_bytes()).expect("pairs of digits");
                packed.entry(name.clone()).or_default().extend(bytes);
            }
        }
    }
    packed
}

/// Each file is written once, because the values of a released version never change.
pub(crate) fn write(version: &str, packed: &[(&str, Vec<u8>)]) {
    let path = path(version);
    assert!(!path.exists(), "{} exists", path.display());
    let mut text = format!("# What tower-pulse {version} writes: tests/frozen/main.rs.\n");
    for (name, bytes) in packed {
        let digits = HEXLOWER.encode(bytes);
        writeln!(text, "{name}").expect("a `String` is writable");
        for line in digits.as_bytes().chunks(WIDTH) {
            writeln!(text, "  {}", String::from_utf8_lossy(line)).expect("a `String` is writable");
        }
    }
    std::fs::write(&path, text).expect("the file can be written");
}
