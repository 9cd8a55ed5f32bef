//! The protocol of journal and fold, with the real scripts, flusher and folder on a real server.
//!
//! [`random`] is the random checker. A seeded scheduler decides in which order calls reach the server, and which
//! calls are lost, late or repeated. In the end each served request must be once in the book's keys and once in the
//! records. Read `net` (calls that wait), `process` (their callers), `ground` (what they share), `data` (a server) and
//! `in_process` (memory, a file), `world` (the scheduler), `fleet`, `faults`, `ledger` and `verdict` (the checks). The
//! other files test cases that random schedules hardly ever reach.
//!
//! `PULSE_SEED=17` runs one schedule and prints its story; `PULSE_RUNS=1000 PULSE_FIRST=500` runs 1,000 schedules
//! from number 500 on. The size of the steps of a fold depends on real time, so a repeated schedule may differ a
//! little.

mod data;
mod drive;
mod faults;
mod fleet;
mod ground;
mod hours;
mod in_process;
mod ledger;
mod net;
mod process;
mod stamps;
mod step;
mod verdict;
mod world;

mod bounds;
mod foreign;
mod newer;
mod random;
mod rolled;
mod rounds;
mod single_calls;
