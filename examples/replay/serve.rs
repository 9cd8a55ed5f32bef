//! Serves the dashboard, with a clock that runs on in real time from the last second of the log.
//!
//! A task moves a manual clock, because a system [`Clock`](tower_pulse::Clock) cannot start at another time: that would
//! slow each reading of the wall clock for all users of the crate.

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tower_pulse::admin::Access;
use tower_pulse::{ManualClock, Pulse, Task};

use crate::variable;
use pulse_examples::listen::check_address;
use pulse_examples::signal::shutdown_signal;

const TICK: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Server {
    listen: SocketAddr,
    access: Access,
}

impl Server {
    /// Reads the environment, and checks that the address can be used later.
    pub(crate) fn from_env() -> Result<Self, Box<dyn Error>> {
        let listen = variable("LISTEN")?.filter(|listen| !listen.is_empty());
        let listen = listen.unwrap_or_else(|| "127.0.0.1:3000".to_owned());
        let allowed = "must be an IP address and a port, such as 127.0.0.1:3000";
        let address: SocketAddr =
            (listen.trim().parse()).map_err(|_| format!("LISTEN={listen:?}: {allowed}"))?;
        let token = variable("PULSE_TOKEN")?.filter(|token| !token.is_empty());
        if token.is_none() && !address.ip().is_loopback() {
            let message = format!(
                "LISTEN={listen} is open to others: set PULSE_TOKEN, or listen on a loopback address"
            );
            return Err(message.into());
        }
        check_address(address).map_err(|error| format!("LISTEN={listen}: {error}"))?;
        Ok(Self {
            listen: address,
            access: token.map_or_else(Access::open, Access::token),
        })
    }

    pub(crate) async fn run(
        self,
        pulse: &Pulse,
        time: ManualClock,
        tasks: Vec<Task>,
    ) -> Result<(), Box<dyn Error>> {
        let admin = pulse
            .try_mount("/admin/pulse", self.access)
            .map_err(|error| format!("PULSE_TOKEN: {error}"))?;
        let clock = tokio::spawn(run_in_real_time(time));
        let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        let listener = TcpListener::bind(self.listen)
            .await
            .map_err(|error| format!("LISTEN={}: {error}", self.listen))?;
        println!(
            "the dashboard  http://{}/admin/pulse",
            listener.local_addr()?
        );
        // Requests of the dashboard take milliseconds. Open requests are dropped when the process ends.
        tokio::select! {
            result = axum::serve(listener, admin).into_future() => result?,
            () = shutdown_signal() => {}
        }
        // The access log is recorded, so an unreachable store is not an error here.
        let _ = pulse.shutdown().await;
        for task in tasks {
            task.await?;
        }
        clock.abort();
        Ok(())
    }
}

async fn run_in_real_time(time: ManualClock) {
    let (start, mut moved) = (Instant::now(), Duration::ZERO);
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        let elapsed = start.elapsed();
        time.advance(elapsed - moved);
        moved = elapsed;
    }
}
