//! Lists the public items of tower-pulse, for `make surface`. A test fails if the list is not up to date.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use public_api::Builder;
use serde_json::Value;

/// The version of Rust whose rustdoc writes the JSON that the crate `public-api` reads. The JSON of another version
/// would change the list.
const RUST: &str = "1.95.0";
const LIST: &str = "public-api.txt";
/// Auto traits that the list omits, because few users depend on them, unlike `Send` and `Sync`.
const OMITTED: [&str; 5] = [
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

/// The internal crates, whose types tower-pulse re-exports.
const INTERNAL: [&str; 7] = [
    "tower-pulse-admin",
    "tower-pulse-core",
    "tower-pulse-detect",
    "tower-pulse-file",
    "tower-pulse-model",
    "tower-pulse-redis",
    "tower-pulse-rows",
];

/// The features with public items, besides the default features.
const FEATURES: &str = "file,rankings,redis,redis-tls,row-cache,tracing";

/// All public items, one per line: first the items of tower-pulse, then those of the types that tower-pulse re-exports
/// from [`INTERNAL`] crates.
fn public_items() -> Result<String, Box<dyn Error>> {
    let folder = write_json()?;
    let (mut list, uses) = items_of(&folder, "tower-pulse")?;
    let mut reexported = Reexported::default();
    reexported.extend(uses, |_| true);
    let mut crates = Vec::new();
    for internal in INTERNAL {
        let (items, uses) = items_of(&folder, internal)?;
        crates.push((internal.replace('-', "_"), items));
        // The crate may itself re-export a type from another internal crate.
        let names = reexported.names.clone();
        reexported.extend(uses, |name| names.contains(name));
    }
    for (name, mut items) in crates {
        items.retain(|line| {
            type_of(line, &name).is_some_and(|path| reexported.paths.contains(path))
        });
        list.append(&mut items);
    }
    Ok(list.join("\n") + "\n")
}

#[derive(Default)]
struct Reexported {
    names: BTreeSet<String>,
    /// The paths at which the items are defined.
    paths: BTreeSet<String>,
}

impl Reexported {
    fn extend(&mut self, uses: Vec<(String, String)>, is_shown: impl Fn(&str) -> bool) {
        for (name, path) in uses.into_iter().filter(|(name, _)| is_shown(name)) {
            self.names.insert(name);
            self.paths.insert(path);
        }
    }
}

/// The path of the type that an item belongs to, if the type is in the crate `internal`.
fn type_of<'a>(line: &'a str, internal: &str) -> Option<&'a str> {
    let item = line
        .rsplit_once(" for ")
        .map_or(line, |(_, implementer)| implementer);
    let start = item.find(&format!("{internal}::"))?;
    // An item does not belong to a type that is only an argument of a function or of another type.
    let (before, path) = item.split_at(start);
    if before.ends_with('<') || before.contains('(') {
        return None;
    }
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let path = &path[..path.find(|c| !is_path(c)).unwrap_or(path.len())];
    let mut end = 0;
    for name in path.trim_end_matches(':').split("::") {
        end += name.len();
        if name.starts_with(|c: char| c.is_ascii_uppercase()) {
            return Some(&path[..end]);
        }
        end += "::".len();
    }
    None
}

/// The public items of a package, and the names and paths of its re-exports.
#[allow(clippy::type_complexity, reason = "two lists")]
fn items_of(
    folder: &Path,
    package: &str,
) -> Result<(Vec<String>, Vec<(String, String)>), Box<dyn Error>> {
    let json = folder.join(format!("{}.json", package.replace('-', "_")));
    let described: Value = serde_json::from_str(&fs::read_to_string(&json)?)?;
    let index = described["index"].as_object().ok_or("an index")?;
    let mut uses = Vec::new();
    for reexport in index.values().map(|item| &item["inner"]["use"]) {
        let (Some(name), Some(source)) = (reexport["name"].as_str(), reexport["source"].as_str())
        else {
            continue;
        };
        match reexport["is_glob"] == true && source.starts_with("tower_pulse_") {
            true => {
                let names = names_in(folder, source)?.into_iter();
                uses.extend(names.map(|name| (name.clone(), format!("{source}::{name}"))));
            }
            false => uses.push((name.to_owned(), source.to_owned())),
        }
    }
    let api = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .build()?;
    let lines = api.items().map(|item| item.to_string());
    let is_omitted = |line: &String| {
        let mut omitted = OMITTED.iter();
        omitted.any(|name| line.contains(&format!("{name} for tower_pulse")))
    };
    Ok((lines.filter(|line| !is_omitted(line)).collect(), uses))
}

/// The names in a module of another crate.
fn names_in(folder: &Path, module: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let path: Vec<&str> = module.split("::").collect();
    let json = fs::read_to_string(folder.join(format!("{}.json", path[0])))?;
    let described: Value = serde_json::from_str(&json)?;
    let ids = described["paths"].as_object().ok_or("paths")?;
    let (id, _) = ids
        .iter()
        .find(|(_, item)| item["path"] == serde_json::json!(path))
        .ok_or("the module")?;
    let items = &described["index"][id]["inner"]["module"]["items"];
    let items = items.as_array().ok_or("items")?;
    let name = |id: &Value| {
        let item = &described["index"][id.to_string()];
        let name = item["name"].as_str();
        Some(name.or(item["inner"]["use"]["name"].as_str())?.to_owned())
    };
    Ok(items.iter().filter_map(name).collect())
}

/// Lets rustdoc write the JSON of the crates, in one run, so that their dependencies are checked once. Returns the
/// folder of the files.
fn write_json() -> Result<PathBuf, Box<dyn Error>> {
    let root = package().join("../..");
    let target = env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    let mut cargo = cargo()?;
    cargo
        .current_dir(root)
        .env("RUSTDOC", package().join("rustdoc.sh"))
        // After `make lint-sets`, which has other flags, cargo runs rustdoc again.
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json")
        .env_remove("RUSTFLAGS")
        .args(["doc", "--locked", "--quiet", "--lib", "--no-deps"])
        .args(["--features", FEATURES, "--package", "tower-pulse"])
        .args(INTERNAL.iter().flat_map(|name| ["--package", name]))
        .arg("--target-dir")
        .arg(&target);
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("{cargo:?} failed: {status}").into());
    }
    Ok(target.join("doc"))
}

/// The cargo of [`RUST`]: the cargo that runs this program or, if its version differs, a cargo that rustup installs.
fn cargo() -> Result<Command, Box<dyn Error>> {
    let current = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let version = Command::new(&current).arg("--version").output()?;
    let minor = RUST.trim_end_matches(|c| c != '.');
    if String::from_utf8_lossy(&version.stdout).starts_with(&format!("cargo {minor}")) {
        return Ok(Command::new(current));
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["run", "--install", RUST, "cargo"]);
    // These variables name the tools of the current Rust.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        rustup.env_remove(name);
    }
    Ok(rustup)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static PUBLIC: LazyLock<String> =
        LazyLock::new(|| public_items().expect("rustdoc writes the JSON"));

    /// The types of a list that other crates can build or match exhaustively: structs with public fields, enums, and
    /// variants with named fields, unless they are `#[non_exhaustive]`.
    fn exhaustive(list: &str) -> BTreeSet<&str> {
        let path = |item: &'static str| {
            let paths = list.lines().filter_map(move |line| line.strip_prefix(item));
            paths.map(|path| path.split(['<', '(', ' ']).next().unwrap_or(path))
        };
        let enums: BTreeSet<&str> = path("pub enum ").collect();
        let open_enums: BTreeSet<&str> = path("#[non_exhaustive] pub enum ").collect();
        let structs: BTreeSet<&str> = path("pub struct ").collect();
        let is_variant = |path: &str| {
            let parent = path.rsplit_once("::").map_or(path, |(parent, _)| parent);
            enums.contains(parent) || open_enums.contains(parent)
        };
        let open_variants: BTreeSet<&str> = path("#[non_exhaustive] pub ").collect();
        let fields = list.lines().filter_map(|line| line.strip_prefix("pub "));
        let fields = fields.filter_map(|line| Some(line.split_once(": ")?.0.rsplit_once("::")?.0));
        let with_fields = fields.filter(|path| {
            structs.contains(path) || is_variant(path) && !open_variants.contains(path)
        });
        with_fields.chain(enums.iter().copied()).collect()
    }

    #[test]
    fn public_types_are_non_exhaustive() {
        let exhaustive = exhaustive(&PUBLIC);
        assert!(
            exhaustive.is_empty(),
            "a new field or variant of these types would break users who build or match them. Add #[non_exhaustive], \
             and a constructor if users build them: {exhaustive:#?}"
        );
    }

    #[test]
    fn the_list_has_the_public_items() {
        let list = fs::read_to_string(package().join(LIST)).expect("the list is in the repository");
        // Compares sets, because the order of the lines depends on the files in which the items are defined.
        let public = PUBLIC.lines().collect::<BTreeSet<_>>();
        let list = list.lines().collect::<BTreeSet<_>>();
        let new = public.difference(&list).collect::<Vec<_>>();
        let gone = list.difference(&public).collect::<Vec<_>>();
        assert!(
            new.is_empty() && gone.is_empty(),
            "the public items have changed. If this is intended, run `make surface`, and describe the change in \
             CHANGELOG.md\nnew: {new:#?}\ngone: {gone:#?}"
        );
    }
}
