//! Timing and counting any code, without HTTP: the recipes *time-series counters* and *access times*.
#![allow(clippy::print_stdout)] // An example talks to whoever started it.

use std::time::Duration;

use tower_pulse::Pulse;

async fn find_user(id: u32) -> Result<String, std::io::Error> {
    tokio::time::sleep(Duration::from_millis(u64::from(id))).await;
    if id.is_multiple_of(7) {
        return Err(std::io::Error::other("no such user"));
    }
    Ok(format!("user {id}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pulse = Pulse::builder().build()?;
    let sales = pulse.counter("sales");
    for id in 1..=20 {
        // Times a future, from its first poll to its end; an `Err` counts as an error.
        let user = pulse.try_time("db:find_user", find_user(id)).await;

        // Times any block, including one that returns early or panics.
        let mut timer = pulse.timer("template:user");
        match user {
            Ok(_) => sales.increment(),
            Err(_) => timer.failed(),
        }
    }

    pulse.flush().await?;
    for (context, mean) in pulse.store().slowest().await? {
        println!("{context:<16} {:.1} ms on average", mean * 1e3);
    }
    for (slice, count) in pulse.store().counter("sales", 1).await? {
        println!("sales at {slice}: {count}");
    }
    pulse.shutdown().await?;
    Ok(())
}
