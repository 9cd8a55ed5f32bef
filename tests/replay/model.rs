//! A generated log, and the counts of its lines.

use std::collections::BTreeMap;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub hits: i64,
    pub errors: i64,
    pub micros: i64,
}

/// A log, and its counts by context and second. [`ALL`] has the sums of all contexts.
#[derive(Debug, Default)]
pub struct Model {
    pub text: String,
    pub unreadable: u64,
    pub readable: u64,
    /// The newest second.
    pub last: i64,
    seconds: BTreeMap<String, BTreeMap<i64, Counts>>,
}

pub const ALL: &str = "<all>";

impl Model {
    pub fn add(&mut self, second: i64, context: &str, micros: i64, status: u16, end: &str) {
        write!(self.text, "{second},{context},{micros},{status}{end}").unwrap();
        self.readable += 1;
        self.last = self.last.max(second);
        for name in [context, ALL] {
            let seconds = self.seconds.entry(name.to_owned()).or_default();
            let counts = seconds.entry(second).or_default();
            counts.hits += 1;
            counts.errors += i64::from(status >= 500);
            counts.micros += micros;
        }
    }

    pub fn add_unreadable(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.unreadable += 1;
    }

    pub fn contexts(&self) -> impl Iterator<Item = &str> {
        let names = self.seconds.keys().map(String::as_str);
        names.filter(|name| *name != ALL)
    }

    /// The counts of each slice of `width` seconds that has lines, oldest first.
    pub fn slices(&self, context: &str, width: i64) -> BTreeMap<i64, Counts> {
        let mut slices = BTreeMap::<i64, Counts>::new();
        for (second, counts) in &self.seconds[context] {
            let slice = second.div_euclid(width) * width;
            let slice = slices.entry(slice).or_default();
            slice.hits += counts.hits;
            slice.errors += counts.errors;
            slice.micros += counts.micros;
        }
        slices
    }
}

/// A log of `hours` hours. A few lines are up to four seconds out of order. The log has an hour without requests, lines
/// that cannot be read, and both kinds of line ends. The last line has no line end.
pub fn generated(start: i64, hours: i64, lines: usize, seed: u64) -> Model {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model = Model::default();
    let contexts = [
        "GET /",
        "GET /users/{id}",
        "POST /orders, express",
        "GET /ü",
        "job,,x",
    ];
    let times = (0..lines).map(|_| start + rng.i64(0..hours * 3_600));
    let mut times: Vec<i64> = times.collect();
    times.retain(|at| !(start + 7_200..start + 10_800).contains(at));
    times.sort_unstable();
    for (n, mut at) in times.into_iter().enumerate() {
        if rng.u32(0..50) == 0 {
            at = (at - rng.i64(1..5)).max(start);
        }
        if rng.u32(0..400) == 0 {
            model.add_unreadable(match rng.u32(0..5) {
                0 => "",
                1 => "1700000000,GET /,5",
                2 => "1700000000,GET /,-5,200",
                3 => "1700000000,GET /,5,600",
                _ => "1700000000,GET /,99999999999999999,200",
            });
        }
        let context = contexts[rng.usize(0..5).min(rng.usize(0..5))];
        let micros = rng.i64(1..400) * rng.i64(1..400);
        let status = [200, 204, 304, 404, 500, 503][rng.usize(0..6)];
        let end = ["\n", "\r\n"][usize::from(n % 7 == 0)];
        model.add(at, context, micros, status, end);
    }
    let last = model.last;
    model.add(last, "GET /", 7_654_321, 200, "");
    model
}
