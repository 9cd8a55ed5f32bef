//! Rankings within a moving window, in the example `leaderboard`.

mod example;
