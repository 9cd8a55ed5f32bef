//! Brings the history of a file into Redis, when a service of one process becomes a fleet.
//!
//! `PULSE_FILE=pulse.redb REDIS_URL=redis://127.0.0.1/ cargo run --release --example import`
//!
//! `PULSE_PREFIX` is that of the fleet's keys: `pulse:` without it, and `pulse:shop:` for `.service("shop")`. With
//! `PULSE_HISTORY_DAYS` records by the day come along, which the fleet should keep as well (`Builder::history`).
#![allow(clippy::print_stdout)] // An example talks to whoever started it.

use std::error::Error;
use std::time::Duration;

use tower_pulse::import::FileImport;
use tower_pulse::store::Store;
use tower_pulse::store::redis::{RedisOptions, RedisStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let file = setting("PULSE_FILE", "pulse.redb");
    let options = RedisOptions::new(&setting("REDIS_URL", "redis://127.0.0.1/"))?;
    let store = RedisStore::open(options.prefix(setting("PULSE_PREFIX", "pulse:"))?)?;

    let import = FileImport::new(&file)?;
    let mut import = import.on_progress(|brought| println!("{brought}"));
    if let Ok(days) = std::env::var("PULSE_HISTORY_DAYS") {
        let days: u64 = days.parse()?;
        import = import.history(Duration::from_secs(days * 86_400))?;
    }
    match import.run(Store::from(store)).await {
        Ok(brought) => println!("done: {file} is in Redis now: {brought}"),
        Err(error) => {
            println!("{error}");
            std::process::exit(1);
        }
    }
    Ok(())
}
