//! Breaks the Lua scripts in one place at a time, and prints which test notices each break, for `make lua-breaks`.
//! Fails if a break remains unnoticed.
//!
//! The breaks are made in a copy of the scripts. The tests are built once, because they read the scripts from the
//! folder that `PULSE_LUA_FOLDER` names.
//!
//! Each argument selects the breaks whose script or name contains the argument. `PULSE_LUA_FROM=65` begins with the
//! 65th selected break, to continue an earlier run.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use std::{env, fs};

use breaks::{BREAKS, Break};

mod breaks;

/// Arguments of the test program that select tests.
type Filter = &'static [&'static str];

/// The tests that run the scripts on a real server, cheapest first.
const FILTERS: [Filter; 5] = [
    &["journal::", "--skip", "random::", "--skip", "rolled::"],
    &["stores::", "--skip", "memory::"],
    &["journal::random::", "journal::rolled::"],
    &["cleaning::"],
    &["faults::"],
];
/// The tests that run the scripts of rows on a real server.
const ROW_FILTERS: [Filter; 1] = [&["rows::"]];
/// The time limit in seconds for a filter's tests: a break can make a loop endless. The tests take up to a minute, or
/// several minutes on a busy machine.
const TIME_LIMIT: &str = "600";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let texts: Vec<String> = env::args().skip(1).collect();
    let is_selected = |broken: &&Break| {
        let name = full_name(broken);
        texts.is_empty() || texts.iter().any(|text| name.contains(text.as_str()))
    };
    let from = match env::var("PULSE_LUA_FROM") {
        Ok(number) => number.parse::<usize>()?.saturating_sub(1),
        Err(_) => 0,
    };
    let selected: Vec<&Break> = BREAKS.iter().filter(is_selected).skip(from).collect();
    if selected.is_empty() {
        return Err(format!("no break matches {texts:?} from number {} on", from + 1).into());
    }
    let scripts = copy_scripts()?;
    // Checks that each break can be applied, before the tests are built.
    for broken in &selected {
        broken.apply(&fs::read_to_string(broken.path(&scripts))?)?;
    }
    let start = Instant::now();
    let filters_of = |broken: &Break| match broken.script {
        script if script.starts_with("rows_") => &ROW_FILTERS[..],
        _ => &FILTERS[..],
    };
    let mut filters: Vec<_> = selected.iter().map(|broken| filters_of(broken)).collect();
    filters.dedup();
    let filters = filters.concat();
    let tests = Tests::build(scripts.clone())?;
    if let Some(noticed) = tests.test(&filters)? {
        return Err(format!("the unbroken scripts already fail: {noticed}").into());
    }
    let seconds = start.elapsed().as_secs();
    println!("the unbroken scripts pass ({seconds} s)");
    let mut unnoticed = Vec::new();
    for (at, broken) in selected.iter().enumerate() {
        let start = Instant::now();
        let path = broken.path(&scripts);
        let source = fs::read_to_string(&path)?;
        fs::write(&path, broken.apply(&source)?)?;
        let noticed = tests.test(filters_of(broken));
        fs::write(&path, source)?;
        let noticed = noticed?;
        let result = match &noticed {
            Some(noticed) => format!("noticed by {noticed}"),
            None => "NOT NOTICED".to_owned(),
        };
        let (number, all) = (from + at + 1, from + selected.len());
        let (name, seconds) = (full_name(broken), start.elapsed().as_secs());
        println!("{number}/{all} {name}: {result} ({seconds} s)");
        if noticed.is_none() {
            unnoticed.push(broken);
        }
    }
    let noticed = selected.len() - unnoticed.len();
    println!("{} breaks, {noticed} noticed", selected.len());
    for broken in &unnoticed {
        println!("not noticed: {}", full_name(broken));
    }
    Ok(match unnoticed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn full_name(broken: &Break) -> String {
    format!("{}.lua: {}", broken.script, broken.name)
}

/// Copies the scripts. Returns the folder that contains the folder `lua`.
fn copy_scripts() -> Result<PathBuf, Box<dyn Error>> {
    let folder = repository()?.join("target/lua-breaks");
    fs::create_dir_all(folder.join("lua"))?;
    for script in fs::read_dir(repository()?.join("crates/redis/src/lua"))? {
        let script = script?;
        fs::copy(script.path(), folder.join("lua").join(script.file_name()))?;
    }
    Ok(folder)
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

struct Tests {
    scripts: PathBuf,
    root: PathBuf,
    executable: PathBuf,
}

impl Tests {
    fn build(scripts: PathBuf) -> Result<Self, Box<dyn Error>> {
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

    /// Runs the tests of each filter until a test fails. Returns the name of this test.
    fn test(&self, filters: &[Filter]) -> Result<Option<String>, Box<dyn Error>> {
        for filter in filters {
            if let Some(test) = self.failing_test(filter)? {
                return Ok(Some(test));
            }
        }
        Ok(None)
    }

    /// Returns the first test that fails among others, and fails again alone. On a busy machine, a test may fail by
    /// chance.
    fn failing_test(&self, args: &[&str]) -> Result<Option<String>, Box<dyn Error>> {
        let mut skipped = Vec::new();
        loop {
            let skip = skipped.iter().flat_map(|test: &String| ["--skip", test]);
            let args: Vec<&str> = args.iter().copied().chain(skip).collect();
            let Some(test) = self.run(&args)? else {
                return Ok(None);
            };
            // If `test` is an exit status, `--exact` selects no test, and the run passes.
            let is_by_chance = self.run(&["--exact", &test])?.is_none();
            if !is_by_chance || test.contains(' ') {
                return Ok(Some(test));
            }
            skipped.push(test);
        }
    }

    /// Runs tests until a test fails, or the time limit has passed. Returns the name of the failed test. If the tests
    /// ended without success and without a failed test, returns their exit status.
    fn run(&self, args: &[&str]) -> Result<Option<String>, Box<dyn Error>> {
        // Runs without cargo, so that killing the process ends the tests. The servers of the tests end with the tests.
        let mut tests = Command::new("timeout")
            .arg(TIME_LIMIT)
            .arg(&self.executable)
            .args(args)
            .current_dir(&self.root)
            .env("CARGO_MANIFEST_DIR", &self.root)
            .env("PULSE_LUA_FOLDER", &self.scripts)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = tests.stdout.take().ok_or("the output is piped")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        // `test stores::redis::counters_are_stored_at_all_precisions ... FAILED`
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
