//! Joins, shortens and compresses the files of the dashboard. The binary contains them as they are served.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

#[path = "src/scripts.rs"]
mod scripts;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src/assets");
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let read = |name: &str| fs::read_to_string(Path::new("src/assets").join(name));
    let mut list = String::from("&[\n");
    for (name, text) in scripts::served(read)? {
        let file = fs::File::create(folder.join(name))?;
        let mut file = GzEncoder::new(file, Compression::best());
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.finish()?;
        list.push_str(&format!("({name:?}, include_bytes!({name:?})),\n"));
    }
    fs::write(folder.join("assets.rs"), list + "]")
}
