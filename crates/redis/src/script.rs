//! The Lua scripts and their calls.

use std::path::Path;
use std::sync::LazyLock;

use redis::{Cmd, Script, ToRedisArgs};

pub(super) struct Lua {
    pub(super) source: String,
    pub(super) hash: String,
}

impl Lua {
    /// Joins the files of a script. Each file is a pair of its name and its text.
    fn new(files: &[(&str, &str)]) -> Self {
        let text = |(file, text): &(&str, &str)| replaced(file).unwrap_or_else(|| (*text).into());
        let source: String = files.iter().map(text).collect();
        let hash = Script::new(&source).get_hash().to_owned();
        Self { source, hash }
    }
}

/// Declares a script: one file, or several files joined in this order.
macro_rules! lua {
    ($name:ident, $($file:literal),+) => {
        pub(super) static $name: LazyLock<Lua> =
            LazyLock::new(|| Lua::new(&[$(($file, include_str!($file))),+]));
    };
}

/// The text of `file` in the folder that `PULSE_LUA_FOLDER` names, so that `make lua-breaks` can break scripts
/// without rebuilding the tests.
fn replaced(file: &str) -> Option<String> {
    if !cfg!(feature = "__test_store") {
        return None;
    }
    let folder = std::env::var_os("PULSE_LUA_FOLDER")?;
    std::fs::read_to_string(Path::new(&folder).join(file)).ok()
}

lua!(HELLO, "lua/hello.lua");
lua!(APPEND, "lua/append.lua");
lua!(ACQUIRE, "lua/try.lua", "lua/acquire.lua");
lua!(READ, "lua/try.lua", "lua/read.lua");
lua!(FOLD, "lua/exports.lua", "lua/fold.lua");
lua!(INSPECT, "lua/inspect.lua");
lua!(AMEND, "lua/try.lua", "lua/amend.lua");
lua!(CLEAN, "lua/try.lua", "lua/clean.lua");
#[cfg(feature = "row-cache")]
lua!(ROWS_SCHEDULE, "lua/rows_schedule.lua");
#[cfg(feature = "row-cache")]
lua!(ROWS_LEASE, "lua/try.lua", "lua/rows_lease.lua");
#[cfg(feature = "row-cache")]
lua!(ROWS_DROP, "lua/rows_drop.lua");
#[cfg(feature = "row-cache")]
lua!(ROWS_FINISH, "lua/rows_finish.lua");

#[derive(Debug, Default)]
pub(super) struct Invocation {
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
}

impl Invocation {
    pub(super) fn new(keys: impl ToRedisArgs, args: impl ToRedisArgs) -> Self {
        let mut invocation = Self::default();
        invocation.key(keys);
        invocation.arg(args);
        invocation
    }

    pub(super) fn key(&mut self, keys: impl ToRedisArgs) {
        keys.write_redis_args(&mut self.keys);
    }

    /// A `None` adds no argument. For a value that may be missing, use [`or_empty`].
    pub(super) fn arg(&mut self, args: impl ToRedisArgs) {
        args.write_redis_args(&mut self.args);
    }

    pub(super) fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.keys.append(&mut other.keys);
        self.args.append(&mut other.args);
    }

    /// The command that calls a script: EVALSHA with the hash of a cached script, or EVAL with the source, which the
    /// server then caches.
    pub(super) fn command(&self, name: &str, script: &str) -> Cmd {
        let parts = self.keys.len() + self.args.len();
        let bytes: usize = self.keys.iter().chain(&self.args).map(Vec::len).sum();
        let mut command = Cmd::with_capacity(3 + parts, script.len() + bytes + 16);
        command.arg(name).arg(script).arg(self.keys.len());
        command.arg(&self.keys).arg(&self.args);
        command
    }
}

/// The argument for a value that may be missing: an empty text stands for a missing value.
pub(super) fn or_empty(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
