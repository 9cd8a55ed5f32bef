//! A process that adds to a ranking: the test that starts it, once more, which then takes commands from its standard
//! input.
//!
//! | Command | Meaning |
//! |---|---|
//! | `time SECOND` | counts what was added, and sets the clock |
//! | `add SEED N` | adds `N` random additions from four tasks |
//! | `remove ID` | removes an id, and waits until it is gone |
//! | `flush` | flushes until the store has everything |
//! | `top` | prints all ids and scores |
//! | `shutdown` | ends gracefully |
//!
//! It answers each command with one line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Clock, ManualClock, Pulse, Ranking};
use tower_pulse_core::store::Store;
use tower_pulse_redis::{RedisOptions, RedisStore};

pub const TASKS: u64 = 4;
/// The window: six intervals.
pub const INTERVAL: u64 = 600;
pub const SLICES: u64 = 6;
const IDS: u32 = 300;
const ADDRESS: &str = "PULSE_RANKING_CHILD";
const TIME: &str = "PULSE_RANKING_TIME";

/// The additions of one task.
pub fn additions(seed: u64, task: u64, n: u64) -> impl Iterator<Item = (u32, i64)> {
    let mut rng = fastrand::Rng::with_seed(seed ^ (task << 48));
    (0..n).map(move |_| {
        // Some ids are added to much more often than others.
        let most = rng.u32(1..=IDS);
        let by = if rng.u32(..10) == 0 {
            rng.i64(-3..9)
        } else {
            1
        };
        (rng.u32(..most), by)
    })
}

/// The process as its parent sees it. Dropping it kills the process.
pub struct Process {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a process whose clock stands at `second`. It runs the test of this name, which [answers](answer_commands).
    pub fn start(test: &str, url: &str, second: i64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "-q"])
            .env(ADDRESS, url)
            .env(TIME, second.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self {
            child,
            commands,
            answers: BufReader::new(answers),
        }
    }

    pub fn send(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    /// The answer to the oldest command that has no answer yet.
    pub fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line).unwrap();
            assert!(read > 0, "the process has ended");
            // The test harness of the child prints lines of its own.
            if let Some(answer) = line.trim_end().strip_prefix("answer ") {
                return answer.to_owned();
            }
        }
    }

    pub fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    pub fn top(&mut self) -> Vec<(String, i64)> {
        serde_json::from_str(&self.ask("top")).unwrap()
    }

    /// Ends it gracefully.
    pub fn shut_down(mut self) {
        assert_eq!(self.ask("shutdown"), "done");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address of the store, in a process that was started.
pub fn address() -> Option<String> {
    std::env::var(ADDRESS).ok()
}

/// Answers commands until the process is to end.
pub async fn answer_commands(url: &str) {
    let (clock, manual) = Clock::manual(std::env::var(TIME).unwrap().parse().unwrap());
    let options = RedisOptions::new(url).unwrap();
    let options = options.response_timeout(Duration::from_millis(200));
    let store = RedisStore::open(options).unwrap().with_clock(clock.clone());
    let store: Arc<dyn Store> = Arc::new(store);
    let builder = Pulse::builder().store(store).clock(clock);
    let builder = builder.shutdown_timeout(Duration::from_secs(20));
    let (pulse, tasks) = builder.build_with_tasks().unwrap();
    tasks.into_iter().for_each(|task| drop(tokio::spawn(task)));
    // The clock stands still, and with it the interval of flushes.
    let flushing = tokio::spawn({
        let pulse = pulse.clone();
        async move {
            loop {
                let _ = pulse.flush().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    let ranking = pulse.ranking("posts");
    let ranking = ranking.interval(Duration::from_secs(INTERVAL));
    let ranking = ranking.period(Duration::from_secs(SLICES * INTERVAL));
    let ranking = ranking.build().unwrap();
    loop {
        let line = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).map(|_| line)
        });
        let line = line.await.unwrap().unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            return;
        }
        if words[0] == "shutdown" {
            flushing.abort();
        }
        let answer = execute(&words, &pulse, &ranking, &manual).await;
        // `println!` would be captured by the test harness, which runs this.
        let mut stdout = std::io::stdout();
        writeln!(stdout, "\nanswer {answer}").unwrap();
        if words[0] == "shutdown" {
            return;
        }
    }
}

async fn execute(words: &[&str], pulse: &Pulse, ranking: &Ranking, manual: &ManualClock) -> String {
    match words {
        ["time", second] => {
            pulse.simulation().drain();
            manual.set_wall(second.parse().unwrap());
            // From now on, what is drained belongs to this second.
            pulse.simulation().drain();
        }
        ["add", seed, n] => {
            let (seed, n) = (seed.parse().unwrap(), n.parse::<u64>().unwrap());
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| tokio::spawn(add(ranking.clone(), seed, task, n / TASKS)))
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
        ["remove", id] => {
            // The error says that the removal stays recorded.
            if ranking.remove(id).await.is_err() {
                flush(pulse).await;
            }
        }
        ["flush"] => flush(pulse).await,
        ["top"] => {
            let top = loop {
                match ranking.top(0, usize::MAX).await {
                    Ok(top) => break top,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            };
            let top: Vec<_> = top.iter().map(|id| (&id.id, id.score)).collect();
            return serde_json::to_string(&top).unwrap();
        }
        ["shutdown"] => pulse.shutdown().await.unwrap(),
        other => panic!("{other:?}"),
    }
    "done".to_owned()
}

async fn add(ranking: Ranking, seed: u64, task: u64, n: u64) {
    for (number, (id, by)) in additions(seed, task, n).enumerate() {
        if number % 1_000 == 999 {
            // Whether it fails or not, it is counted once.
            let _ = ranking.add_now(&id.to_string(), by).await;
        } else {
            ranking.add(&id.to_string(), by);
        }
    }
}

async fn flush(pulse: &Pulse) {
    while pulse.flush().await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
