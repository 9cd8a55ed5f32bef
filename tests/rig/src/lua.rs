//! The Lua scripts of tower-pulse, for tests that call them directly.

use std::path::PathBuf;

/// The source of a script, such as `amend`. `make lua-breaks` sets `PULSE_LUA_FOLDER` to a folder with a broken script.
pub fn script(name: &str) -> String {
    let folder = std::env::var_os("PULSE_LUA_FOLDER").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| {
        PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../crates/redis/src"
        ))
    });
    let read = |name: &str| {
        let file = folder.join(format!("lua/{name}.lua"));
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    // Some scripts call the function `try`.
    read("try") + &read(name)
}
