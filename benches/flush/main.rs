//! What a second costs each store (memory, a file and a real Redis), and how long a page waits for seven days of 2,000
//! contexts: two tables, which `cargo bench -p pulse-benches --bench flush` prints in a few minutes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub
)]

mod cost;
mod polls;
mod stores;

fn main() {
    // `cargo test --benches` and the like only check that it runs.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        cost::table().await;
        polls::table().await;
    });
}
