//! Makes programs from the code in README and the guide, so that a test runs the code that readers copy.
#![allow(clippy::unwrap_used)] // A panic fails the build.

use std::path::Path;
use std::{env, fs};

/// Writes the program of a document, the block of code with a `main`, to a file. Each change replaces a text by the
/// text that the test needs.
fn write(document: &str, name: &str, changes: &[(&str, &str)]) {
    let path = Path::new("../..").join(document);
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("\n```").skip(1).step_by(2);
    let mut programs = blocks.filter(|block| block.contains("\nasync fn main()"));
    let (_, code) = programs.next().unwrap().split_once('\n').unwrap();
    let mut code = code.to_owned();
    for (from, to) in changes {
        assert!(code.contains(from), "{document} lacks {from}");
        code = code.replace(from, to);
    }
    let folder = env::var_os("OUT_DIR").unwrap();
    fs::write(Path::new(&folder).join(name), code).unwrap();
}

fn main() {
    const LISTEN: &str = "std::env::var(\"LISTEN\")?";
    let store = "Pulse::builder().file(std::env::var(\"PULSE_FILE\")?)";
    write(
        "README.md",
        "readme.rs",
        &[("\"127.0.0.1:3000\"", LISTEN), ("Pulse::builder()", store)],
    );
    // Adds a route whose requests never end, and shortens the time for which the shutdown waits for them.
    let home = ".route(\"/\", get(|| async { \"hello\" }))";
    let endless = format!("{home}.route(\"/endless\", get(std::future::pending::<()>))");
    write(
        "src/guide/deploying.md",
        "deploying.rs",
        &[
            ("\"0.0.0.0:3000\"", LISTEN),
            (home, &endless),
            ("from_secs(5)", "from_millis(200)"),
        ],
    );
}
