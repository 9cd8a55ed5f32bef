//! Lists what of tower-pulse is public, for `make surface`. Its test fails when that has changed and the
//! list has not.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use public_api::Builder;

/// The Rust whose rustdoc writes what the crate `public-api` reads: the form differs between versions, and
/// so does the list.
const RUST: &str = "1.95.0";
/// The list, beside `Cargo.toml` of this package.
const LIST: &str = "public-api.txt";
/// Traits that are implemented by themselves and that nobody would miss, unlike `Send` and `Sync`.
const LEFT_OUT: [&str; 5] = [
    "core::marker::Freeze",
    "core::marker::Unpin",
    "core::marker::UnsafeUnpin",
    "core::panic::unwind_safe::RefUnwindSafe",
    "core::panic::unwind_safe::UnwindSafe",
];

fn main() -> Result<(), Box<dyn Error>> {
    let list = public_items()?;
    fs::write(package().join(LIST), list)?;
    Ok(())
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All that is public with the default features, one item a line.
fn public_items() -> Result<String, Box<dyn Error>> {
    let api = Builder::from_rustdoc_json(rustdoc_json()?)
        .omit_blanket_impls(true)
        .build()?;
    let mut list = String::new();
    for item in api.items() {
        let line = item.to_string();
        let implements = |name: &&str| line.contains(&format!("{name} for tower_pulse::"));
        if !LEFT_OUT.iter().any(implements) {
            list += &line;
            list += "\n";
        }
    }
    Ok(list)
}

/// Has rustdoc describe the crate in JSON.
fn rustdoc_json() -> Result<PathBuf, Box<dyn Error>> {
    let root = package().join("../..");
    let target = env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    let mut cargo = cargo()?;
    cargo
        .current_dir(root)
        .env("RUSTDOC", package().join("rustdoc.sh"))
        .env_remove("RUSTFLAGS")
        .args(["rustdoc", "--locked", "--quiet", "--lib", "--package"])
        .args(["tower-pulse", "--target-dir"])
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"]);
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("{cargo:?} failed: {status}").into());
    }
    Ok(target.join("doc/tower_pulse.json"))
}

/// The cargo of [`RUST`]: the present one, or one that rustup installs.
fn cargo() -> Result<Command, Box<dyn Error>> {
    let present = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let version = Command::new(&present).arg("--version").output()?;
    let minor = RUST.trim_end_matches(|c| c != '.');
    if String::from_utf8_lossy(&version.stdout).starts_with(&format!("cargo {minor}")) {
        return Ok(Command::new(present));
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["run", "--install", RUST, "cargo"]);
    // Those of the present Rust.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        rustup.env_remove(name);
    }
    Ok(rustup)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_public_is_listed() {
        let list = fs::read_to_string(package().join(LIST)).expect("the list is in the repository");
        let public = public_items().expect("rustdoc describes the crate");
        // Sets: the order of the lines follows that of the files in which the items are written.
        let public = public.lines().collect::<BTreeSet<_>>();
        let list = list.lines().collect::<BTreeSet<_>>();
        let new = public.difference(&list).collect::<Vec<_>>();
        let gone = list.difference(&public).collect::<Vec<_>>();
        assert!(
            new.is_empty() && gone.is_empty(),
            "what is public has changed; if it was meant to, run `make surface` and note it in \
             CHANGELOG.md\nnew: {new:#?}\ngone: {gone:#?}"
        );
    }
}
