//! The protocol of journal and fold, with the real flusher and folder, on a real server, in memory and in a file.
//!
//! [`random`] runs random schedules. A scheduler with a seed decides in which order calls reach the server, and which
//! calls are lost, delayed or repeated. In the end, each served request must be once in the book's keys and once in the
//! records. Read in this order: `net` (calls that wait), `process` (the callers), `tested_store` (their store),
//! `redis_under_test`, `in_process`, `scheduler`, `fleet`, `faults`, `ledger`, `checks`. The other files test cases
//! that random schedules rarely reach.
//!
//! `PULSE_SEED=17` runs one schedule and prints its events. `PULSE_RUNS=1000 PULSE_FIRST=500` runs 1,000 schedules,
//! beginning with number 500. The size of the steps of a fold depends on real time, so a repeated schedule may differ a
//! little.

mod checks;
mod drive;
mod faults;
mod fleet;
mod hours;
mod in_process;
mod ledger;
mod net;
mod process;
mod redis_under_test;
mod scheduler;
mod stamps;
mod step;
mod tested_store;

mod bounds;
mod foreign;
mod newer;
mod random;
mod rolled;
mod rounds;
mod single_calls;
