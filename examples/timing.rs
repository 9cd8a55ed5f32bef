//! Timing and counting any code, without HTTP.
#![allow(clippy::print_stdout)] // An example prints to its terminal.

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
    for (context, mean) in pulse.store().slowest(100).await? {
        let millis = mean * 1e3;
        println!("{context:<16} {millis:.1} ms on average");
    }
    for (second, sold) in pulse.store().counter("sales", 1).await? {
        println!("sales at {second}: {sold}");
    }
    if let Err(error) = pulse.shutdown().await {
        eprintln!("tower-pulse: {error}");
    }
    Ok(())
}
