//! Timing and counting any code, without HTTP: the recipes *time-series counters* and *access times*.
#![allow(clippy::print_stdout)] // An example talks to whoever started it.

use std::time::Duration;

use tower_pulse::Pulse;
use tower_pulse::store::{CounterQuery, SlowestQuery};

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
    for ranked in pulse.store().slowest(&SlowestQuery::default()).await? {
        let (context, millis) = (ranked.context, ranked.mean * 1e3);
        println!("{context:<16} {millis:.1} ms on average");
    }
    let seconds = CounterQuery::new(["sales"], 1);
    for counter in pulse.store().counters(&seconds).await? {
        for slice in &counter.slices {
            println!("{} at {}: {}", counter.name, slice.start, slice.count);
        }
    }
    if let Err(error) = pulse.shutdown().await {
        eprintln!("tower-pulse: {error}");
    }
    Ok(())
}
