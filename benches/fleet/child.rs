//! The child processes of the bench, in which the instances of the fleet run. A child is the same binary, with the
//! environment variable [`CHILD`]. When the parent exits, the child's standard input closes, and the child exits too.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tower_pulse::{Pulse, Task};

use crate::flush_only;
use crate::meter::{self, Polls};
use crate::traffic::{self, Traffic};

/// The environment variable of a child, with the numbers of its full and flush-only instances, and the server's URL.
const CHILD: &str = "PULSE_FLEET_CHILD";
/// The `replay_bytes` of each instance in a process with many instances.
const REPLAY_BYTES: usize = 256 * 1024;

pub(crate) struct Member {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The id of the thread that folds, if one of the instances is the folder.
    fold_thread: u32,
    pub(crate) instances: Vec<String>,
}

impl Member {
    /// Starts a process with `full` instances, and `flush_only` instances that follow the interval of the first full
    /// one.
    pub(crate) fn start(url: &str, full: usize, flush_only: usize) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .env(CHILD, format!("{full} {flush_only} {url}"))
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

    /// The processor time of the thread that folds, which also reads the server's replies.
    pub(crate) fn fold_cpu(&self) -> Duration {
        meter::thread_cpu(self.process.id(), self.fold_thread)
    }

    /// The durations of the fold's polls since the last call of this function, shortest first.
    pub(crate) fn polls(&mut self) -> Vec<Duration> {
        writeln!(self.input, "polls").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let nanos = line.split_whitespace().map(|nanos| nanos.parse().unwrap());
        nanos.map(Duration::from_nanos).collect()
    }

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

/// In a child, runs the instances until the input closes, and then exits.
pub(crate) fn run_if_child() {
    let Ok(settings) = std::env::var(CHILD) else {
        return;
    };
    let mut words = settings.split(' ');
    let mut count = || words.next().unwrap().parse::<usize>().unwrap();
    let (full, flush_only) = (count(), count());
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
        crate::runtime().block_on(instances(&url, full, flush_only, folds, thread));
    });
    for line in std::io::stdin().lines().map_while(Result::ok) {
        assert_eq!(line, "polls");
        let polls = polls.take();
        let nanos: Vec<_> = polls
            .iter()
            .map(|poll| poll.as_nanos().to_string())
            .collect();
        print_line(&nanos.join(" "));
    }
    std::process::exit(0);
}

fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

async fn instances(
    url: &str,
    full: usize,
    flush_only: usize,
    folds: std::sync::mpsc::Sender<Vec<Task>>,
    fold_thread: u32,
) {
    let (mut pulses, mut traffic, mut fold_tasks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..full {
        let mut builder = Pulse::builder().redis(url);
        if full > 50 {
            builder = builder.replay_bytes(REPLAY_BYTES);
        }
        let (pulse, tasks) = builder.build_with_tasks().unwrap();
        for task in tasks {
            match task.name() {
                "fold" => fold_tasks.push(task),
                _ => drop(tokio::spawn(task)),
            }
        }
        traffic.push(Traffic::new(&pulse));
        pulses.push(pulse);
    }
    folds.send(fold_tasks).unwrap();
    let names: Vec<_> = pulses.iter().map(|pulse| pulse.health().instance).collect();
    print_line(&format!("{fold_thread} {}", names.join(" ")));
    if flush_only > 0 {
        let fleet = flush_only::fleet(url.to_owned(), flush_only, pulses[0].clone());
        tokio::spawn(fleet);
    }
    traffic::serve(traffic).await;
}
