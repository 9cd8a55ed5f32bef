//! Breaks the Lua scripts in one place at a time, and prints which test notices each break, for `make lua-breaks`.
//! Fails if no test notices a break.
//!
//! The breaks are made in a copy of the scripts. The tests are built once, because they read the scripts from the
//! folder that `PULSE_LUA_FOLDER` names.
//!
//! The arguments select breaks: an argument is a part of the name of a script or of a break. `PULSE_LUA_FROM=65` begins
//! with the 65th selected break, to continue an earlier run.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use std::{env, fs};

use breaks::{BREAKS, Break};

mod breaks;

/// The arguments that select some of the tests.
type Part = &'static [&'static str];

/// The tests that run the scripts on a real server, cheapest first.
const PARTS: [Part; 5] = [
    &["journal::", "--skip", "random::", "--skip", "rolled::"],
    &["stores::", "--skip", "memory::"],
    &["journal::random::", "journal::rolled::"],
    &["cleaning::"],
    &["faults::"],
];
/// The tests of the scripts of rows, which no other test runs.
const ROW_PARTS: [Part; 1] = [&["rows::"]];
/// The time limit of a part in seconds, because a break can make a loop endless. A part takes up to a minute, or
/// several minutes on a busy machine.
const TIME_LIMIT: &str = "600";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let texts: Vec<String> = env::args().skip(1).collect();
    let is_selected = |broken: &&Break| {
        let name = format!("{}.lua: {}", broken.script, broken.name);
        texts.is_empty() || texts.iter().any(|text| name.contains(text.as_str()))
    };
    let from = match env::var("PULSE_LUA_FROM") {
        Ok(number) => number.parse::<usize>()?.saturating_sub(1),
        Err(_) => 0,
    };
    let selected: Vec<&Break> = BREAKS.iter().filter(is_selected).skip(from).collect();
    if selected.is_empty() {
        return Err(format!("no break from number {} on contains {texts:?}", from + 1).into());
    }
    let scripts = Scripts::copy()?;
    // Checks that each break can be applied, before the tests are built.
    for broken in &selected {
        broken.apply(&fs::read_to_string(broken.path(&scripts.folder))?)?;
    }
    let start = Instant::now();
    let parts_of = |broken: &Break| match broken.script {
        script if script.starts_with("rows_") => &ROW_PARTS[..],
        _ => &PARTS[..],
    };
    let mut unbroken: Vec<_> = selected.iter().map(|broken| parts_of(broken)).collect();
    unbroken.dedup();
    let unbroken = unbroken.concat();
    let tests = Tests::build(&scripts)?;
    if let Some(noticed) = tests.test(&unbroken)? {
        return Err(format!("the unbroken scripts already fail: {noticed}").into());
    }
    println!(
        "the unbroken scripts pass ({} s)",
        start.elapsed().as_secs()
    );
    let mut unnoticed = Vec::new();
    for (at, broken) in selected.iter().enumerate() {
        let start = Instant::now();
        let path = broken.path(&scripts.folder);
        let source = fs::read_to_string(&path)?;
        fs::write(&path, broken.apply(&source)?)?;
        let noticed = tests.test(parts_of(broken));
        fs::write(&path, source)?;
        let noticed = noticed?;
        let result = match &noticed {
            Some(noticed) => format!("noticed by {noticed}"),
            None => "NOT NOTICED".to_owned(),
        };
        println!(
            "{}/{} {}.lua: {}: {result} ({} s)",
            from + at + 1,
            from + selected.len(),
            broken.script,
            broken.name,
            start.elapsed().as_secs()
        );
        if noticed.is_none() {
            unnoticed.push(broken);
        }
    }
    let noticed = selected.len() - unnoticed.len();
    println!("{} breaks, {noticed} noticed", selected.len());
    for broken in &unnoticed {
        println!(
            "no test notices a break of {}.lua: {}",
            broken.script, broken.name
        );
    }
    Ok(match unnoticed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// A copy of the scripts.
struct Scripts {
    /// The folder that contains the folder `lua`.
    folder: PathBuf,
}

impl Scripts {
    fn copy() -> Result<Self, Box<dyn Error>> {
        let folder = env::temp_dir().join(format!("pulse-lua-breaks-{}", std::process::id()));
        fs::create_dir_all(folder.join("lua"))?;
        for script in fs::read_dir(repository()?.join("crates/redis/src/lua"))? {
            let script = script?;
            fs::copy(script.path(), folder.join("lua").join(script.file_name()))?;
        }
        Ok(Self { folder })
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn repository() -> Result<PathBuf, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Ok(root.canonicalize()?)
}

/// Runs a command of cargo. Returns its messages.
fn cargo(args: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repository()?).args(args).args([
        "--locked",
        "--all-features",
        "--profile",
        "mutants",
    ]);
    // Removes variables that `cargo run` has set for this package.
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") {
            cargo.env_remove(name);
        }
    }
    let output = cargo.output()?;
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(messages),
        false => Err(format!("{cargo:?} failed:\n{messages}").into()),
    }
}

/// The built tests.
struct Tests<'a> {
    scripts: &'a Scripts,
    root: PathBuf,
    executable: PathBuf,
}

impl<'a> Tests<'a> {
    fn build(scripts: &'a Scripts) -> Result<Self, Box<dyn Error>> {
        let root = repository()?;
        // Some tests start the demo.
        cargo(&["build", "--example", "demo"])?;
        let built = cargo(&["test", "--no-run", "--test", "integration"])?;
        // `Executable tests/main.rs (/…/deps/integration-92c1436580ddb995)`
        let executable = built.lines().find_map(|line| {
            let path = line.trim().strip_prefix("Executable ")?.split_once(" (")?.1;
            Some(root.join(path.strip_suffix(')')?))
        });
        Ok(Self {
            scripts,
            executable: executable.ok_or("cargo names the executable")?,
            root,
        })
    }

    /// Runs parts until a test fails. Returns the name of this test.
    fn test(&self, parts: &[Part]) -> Result<Option<String>, Box<dyn Error>> {
        for part in parts {
            if let Some(test) = self.failing_test(part)? {
                return Ok(Some(test));
            }
        }
        Ok(None)
    }

    /// Runs tests until a test fails, and fails again when it runs alone, because a test may fail by chance on a busy
    /// machine.
    fn failing_test(&self, args: &[&str]) -> Result<Option<String>, Box<dyn Error>> {
        let mut skipped = Vec::new();
        loop {
            let skip = skipped.iter().flat_map(|test: &String| ["--skip", test]);
            let args: Vec<&str> = args.iter().copied().chain(skip).collect();
            let Some(test) = self.run(&args)? else {
                return Ok(None);
            };
            // If `test` is an exit status instead of the name of a test, this runs no test, and passes.
            let is_by_chance = self.run(&["--exact", &test])?.is_none();
            if !is_by_chance || test.contains(' ') {
                return Ok(Some(test));
            }
            skipped.push(test);
        }
    }

    /// Runs tests until a test fails, or the time limit has passed. Returns the name of the test. If the tests ended
    /// without success and without a failed test, returns their exit status.
    fn run(&self, args: &[&str]) -> Result<Option<String>, Box<dyn Error>> {
        // Does not use cargo, so that killing the process ends the tests. The servers of the tests end with the tests.
        let mut tests = Command::new("timeout")
            .arg(TIME_LIMIT)
            .arg(&self.executable)
            .args(args)
            .current_dir(&self.root)
            .env("CARGO_MANIFEST_DIR", &self.root)
            .env("PULSE_LUA_FOLDER", &self.scripts.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = tests.stdout.take().ok_or("the output is piped")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        // `test suite::each_call_is_folded_once ... FAILED`
        let failed = lines.find_map(|line| {
            let test = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
            Some(test.to_owned())
        });
        if failed.is_some() {
            // Ends the tests too, because `timeout` passes the signal on.
            Command::new("kill").arg(tests.id().to_string()).status()?;
        }
        let status = tests.wait()?;
        Ok(failed.or_else(|| (!status.success()).then(|| status.to_string())))
    }
}
