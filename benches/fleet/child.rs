//! Processes of the fleet. Each runs this binary again, with its part in an environment variable. A process ends when
//! its input closes, so it ends with its parent.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tower_pulse::{Pulse, Task};

use crate::light;
use crate::meter::{self, Polls};
use crate::traffic::{self, Traffic};

/// The environment variable with the part of a child and the server's URL.
const CHILD: &str = "PULSE_FLEET_CHILD";
/// The bytes that each instance retains for a replay, in a process with many instances.
const REPLAY_BYTES: usize = 256 * 1024;

/// A process with some instances of the fleet.
pub(crate) struct Member {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The id of the thread that folds, if one of the instances is the folder.
    fold_thread: u32,
    /// The names of the instances at the start.
    pub(crate) instances: Vec<String>,
}

impl Member {
    /// Starts `real` complete instances, or one complete and many `light` ones, which only append and send
    /// heartbeats.
    pub(crate) fn start(url: &str, real: usize, light: usize) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .env(CHILD, format!("{real} {light} {url}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let mut words = line.split_whitespace();
        Self {
            fold_thread: words.next().unwrap().parse().unwrap(),
            instances: words.map(str::to_owned).collect(),
            process,
            input,
            output,
        }
    }

    /// The processor time of folding, including reading answers.
    pub(crate) fn fold_cpu(&self) -> Duration {
        meter::thread_cpu(self.process.id(), self.fold_thread)
    }

    /// The durations of the polls of folding since the last call, shortest first.
    pub(crate) fn polls(&mut self) -> Vec<Duration> {
        writeln!(self.input, "polls").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let nanos = line.split_whitespace().map(|nanos| nanos.parse().unwrap());
        nanos.map(Duration::from_nanos).collect()
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the child's part and exits, if this process is a child.
pub(crate) fn run_if_child() {
    let Ok(what) = std::env::var(CHILD) else {
        return;
    };
    let mut words = what.split(' ');
    let mut count = || words.next().unwrap().parse::<usize>().unwrap();
    let (real, light) = (count(), count());
    let url = words.next().unwrap().to_owned();

    let polls = Polls::default();
    let (folds, receiver) = std::sync::mpsc::channel::<Vec<Task>>();
    let (sender, thread) = std::sync::mpsc::channel();
    std::thread::spawn({
        let polls = polls.clone();
        move || {
            sender.send(meter::this_thread()).unwrap();
            let tasks = receiver.recv().unwrap();
            let watched = tasks.into_iter().map(|task| polls.watch(task));
            crate::runtime().block_on(futures_util::future::join_all(watched));
        }
    });
    let thread = thread.recv().unwrap();
    std::thread::spawn(move || {
        crate::runtime().block_on(instances(&url, real, light, folds, thread));
    });
    for line in std::io::stdin().lines().map_while(Result::ok) {
        assert_eq!(line, "polls");
        let polls = polls.take();
        let nanos: Vec<_> = polls
            .iter()
            .map(|poll| poll.as_nanos().to_string())
            .collect();
        say(&nanos.join(" "));
    }
    std::process::exit(0);
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// Runs instances forever.
async fn instances(
    url: &str,
    real: usize,
    light: usize,
    folds: std::sync::mpsc::Sender<Vec<Task>>,
    fold_thread: u32,
) {
    let (mut pulses, mut all, mut fold_tasks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..real {
        let mut builder = Pulse::builder().redis(url);
        if real > 50 {
            builder = builder.replay_bytes(REPLAY_BYTES);
        }
        let (pulse, tasks) = builder.build_with_tasks().unwrap();
        for task in tasks {
            match task.name() {
                "fold" => fold_tasks.push(task),
                _ => drop(tokio::spawn(task)),
            }
        }
        all.push(Traffic::new(&pulse));
        pulses.push(pulse);
    }
    folds.send(fold_tasks).unwrap();
    let names: Vec<_> = pulses.iter().map(|pulse| pulse.health().instance).collect();
    say(&format!("{fold_thread} {}", names.join(" ")));
    if light > 0 {
        tokio::spawn(light::fleet(url.to_owned(), light, pulses[0].clone()));
    }
    traffic::serve(all).await;
}
