//! The cost of a second of traffic in each store (memory, a file and a real Redis), and the time in which the dashboard
//! gets seven days of 2,000 contexts. `cargo bench -p pulse-benches --bench flush` prints both tables in a few minutes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub
)]

mod cost;
#[allow(dead_code, reason = "tests use the other items")]
#[path = "../../tests/rig/instances.rs"]
mod instances;
mod polls;
mod stores;

fn main() {
    // Without `--bench`, as in `cargo test --benches`, only check that the bench starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        cost::print_table().await;
        polls::print_table().await;
    });
}
