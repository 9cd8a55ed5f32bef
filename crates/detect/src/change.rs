//! Changes, as users get them.

mod suspect;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

pub use self::suspect::Suspect;
use crate::words::duration;
use tower_pulse_model::context::{QUEUED, escape_hidden};
use tower_pulse_model::pack::{named, packed};

named! {
    /// The kind of a change.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(
        feature = "serde",
        derive(serde::Serialize, serde::Deserialize),
        serde(rename_all = "snake_case")
    )]
    #[non_exhaustive]
    pub enum ChangeKind {
        /// Successful responses take longer.
        Slower = "slower",
        /// Successful responses take less time.
        Faster = "faster",
        /// A larger share of the requests are errors.
        Failing = "failing",
        /// There are many more requests.
        Surging = "surging",
        /// Requests have stopped, although there always were some.
        Silent = "silent",
        /// One instance is slower, or fails more often, than the others on the same route.
        Instance = "instance",
        /// A larger share of the requests is answered with 4xx.
        Refusing = "refusing",
        /// A kind of error appears that was not seen for a week.
        NewError = "new_error",
    }
}

packed! {
    /// The figure of a change at the same time of an earlier day.
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct Earlier {
        /// The figure then, in the unit of [`Change::then`].
        pub value: f64,
        /// [`Change::now`] divided by `value`.
        pub ratio: f64,
        /// The largest relative error of the figure.
        pub error: f64,
        /// Number of requests behind the figure.
        pub requests: u64,
    }
}

impl Earlier {
    /// Compares `value` at the earlier time with `now`.
    #[doc(hidden)]
    pub fn new(value: f64, now: f64, error: f64, requests: u64) -> Self {
        Self {
            value,
            ratio: if value > 0.0 { now / value } else { 0.0 },
            error,
            requests,
        }
    }
}

/// The maximum length of the name of a person who acknowledges a change, in bytes.
pub const MAX_PERSON_BYTES: usize = 64;

/// Replaces an empty name in an [`Acknowledgement`].
const SOMEONE: &str = "someone";

packed! {
    /// The person who works on a change, and since when.
    #[derive(Clone, Debug, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct Acknowledgement {
        /// The name of the person: at most 64 bytes.
        pub by: Arc<str>,
        /// When the change was acknowledged, in Unix seconds.
        pub at: i64,
    }
}

impl Acknowledgement {
    /// An acknowledgement by a person of this name. Hidden characters are escaped, the result is cut to 64 bytes, and
    /// an empty name becomes [`SOMEONE`].
    #[doc(hidden)]
    pub fn new(by: &str, at: i64) -> Self {
        let mut name = String::new();
        for c in by.trim().chars() {
            let mut bytes = [0; 4];
            // Characters are escaped one by one, so the limit never cuts an escape in its middle.
            let shown = escape_hidden(c.encode_utf8(&mut bytes));
            if name.len() + shown.len() > MAX_PERSON_BYTES {
                break;
            }
            name.push_str(&shown);
        }
        let by = if name.is_empty() { SOMEONE } else { &name };
        Self { by: by.into(), at }
    }
}

packed! {
    /// A context that behaves differently than before, or an instance that differs from the others.
    ///
    /// `Pulse::on_change` passes each change when it begins and when it ends; `api/changes` lists them.
    #[derive(Clone, Debug, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct Change {
        /// Identifies the change in the whole fleet.
        pub id: Arc<str>,
        /// The kind of the change.
        pub kind: ChangeKind,
        /// The context; `<all>` if all contexts have changed together, `<queue>` if the wait in front of the service
        /// has changed.
        pub context: Arc<str>,
        /// The instance, for [`ChangeKind::Instance`].
        pub instance: Option<Arc<str>>,
        /// The start of the minute in which the change began, in Unix seconds.
        pub since: i64,
        /// The end of the minute in which it was detected, in Unix seconds.
        pub detected: i64,
        /// When it ended, in Unix seconds; `None` while it is ongoing.
        pub ended: Option<i64>,
        /// The figure before: seconds per request for slower, faster and a slow instance; the share of errors for
        /// failing and a failing instance; the share of 4xx for refusing; requests per minute for surging and silent;
        /// 0 for a new error, whose figure is `requests`.
        ///
        /// Seconds are those expected now without the change: the mean before the change, times the shift that all
        /// contexts have had since, such as on a busy host. For an instance, `then` is the figure of the other
        /// instances on the same pages.
        pub then: f64,
        /// The figure since the change, in the same unit, over the last [`minutes`](Self::minutes).
        pub now: f64,
        /// `now` divided by `then`; a lower bound if `then` was zero.
        pub ratio: f64,
        /// For slower: whether only the slowest tenth of the requests is slower. If so, `then`, `now` and `ratio` are
        /// about the mean of this tenth.
        pub is_tail: bool,
        /// 1 minus the probability of such a difference by chance.
        pub confidence: f64,
        /// Number of requests behind the figure; for a new error, the page's requests with this kind of error.
        pub requests: u64,
        /// The minutes behind the figures: those since the change, at most the last 76.
        ///
        /// Minutes in which no context had a request do not count.
        pub minutes: u32,
        /// Seconds of service time per minute in these minutes, of the context or the instance.
        pub seconds_per_minute: f64,
        /// Seconds of service time per minute beyond those before the change, at most `seconds_per_minute`.
        pub extra_seconds_per_minute: f64,
        /// The part of `extra_seconds_per_minute` from more requests; 0 if chance explains them.
        pub from_traffic: f64,
        /// The part of `extra_seconds_per_minute` from slower requests, at most `seconds_per_minute`; 0 if chance
        /// explains them.
        pub from_code: f64,
        /// The possible causes, most likely first.
        pub suspects: Vec<Suspect>,
        /// The same time of day yesterday, if it is retained.
        pub yesterday: Option<Earlier>,
        /// The same time a week ago, if it is retained.
        pub week_ago: Option<Earlier>,
        /// The kind of error, for [`ChangeKind::NewError`].
        pub error: Option<Arc<str>>,
        // Fields after the `;` are not packed: acknowledgements are stored separately.
        ;
        /// The person who works on the change; `None` if the change was not acknowledged or has ended.
        pub acknowledged: Option<Acknowledgement>,
    }
}

impl Change {
    /// The known causes of the change, in sentences: `Suspect: payment, which fails in 25 % of its runs instead of 4.0
    /// %; failures with 502.` Empty if no cause is known.
    pub fn explanation(&self) -> String {
        let facts = |suspect: &&Suspect| matches!(suspect, Suspect::Traffic { .. });
        let (facts, suspects): (Vec<_>, Vec<_>) = self.suspects.iter().partition(facts);
        let mut sentences = Vec::new();
        if *self.context == *QUEUED && self.kind == ChangeKind::Slower {
            let longer = duration(self.now - self.then);
            sentences.push(format!(
                "Requests wait in front of the instances, not in a page: +{longer} in the queue."
            ));
        }
        for (head, parts) in [("Its requests", facts), ("Suspect", suspects)] {
            if !parts.is_empty() {
                let texts: Vec<_> = parts.into_iter().map(Suspect::text).collect();
                sentences.push(format!("{head}: {}.", texts.join("; ")));
            }
        }
        sentences.join(" ")
    }

    /// Orders changes by urgency. Ongoing changes come first, by the time that they cost, but refusing pages and new
    /// errors come after all other ongoing changes. Ended changes follow, latest end first.
    #[doc(hidden)]
    pub fn by_urgency(&self, other: &Self) -> Ordering {
        let ended = |change: &Self| change.ended.unwrap_or(i64::MAX);
        let extra = |change: &Self| change.extra_seconds_per_minute;
        let is_minor = |c: &Self| matches!(c.kind, ChangeKind::Refusing | ChangeKind::NewError);
        (ended(other).cmp(&ended(self)))
            .then_with(|| is_minor(self).cmp(&is_minor(other)))
            .then_with(|| extra(other).total_cmp(&extra(self)))
            .then_with(|| self.id.cmp(&other.id))
    }
}

/// Writes sentences such as `GET /search takes 2.58 times as long as before. Suspect: db:search, 36 ms a request
/// instead of 12 ms, 98 % of the added time.`
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        match self.explanation() {
            explanation if self.ended.is_none() && !explanation.is_empty() => {
                write!(f, ". {explanation}")
            }
            _ => Ok(()),
        }
    }
}

impl Change {
    fn headline(&self) -> String {
        // Names are escaped, because the sentence is logged, and another program may have written the names.
        let (context, kind) = (escape_hidden(&self.context), self.kind);
        let instance = self.instance.as_deref().map(escape_hidden);
        let error = escape_hidden(self.error.as_deref().unwrap_or("an error"));
        let is_of_queue = *self.context == *QUEUED;
        if self.ended.is_some() {
            let again = "is like the other instances again on";
            return match instance {
                _ if is_of_queue => "requests wait in front of the service as before".to_owned(),
                Some(instance) => format!("{instance} {again} {context}"),
                None if kind == ChangeKind::Surging => format!("{context} no longer surges"),
                None if kind == ChangeKind::Refusing => format!("{context} no longer refuses"),
                None if kind == ChangeKind::NewError => {
                    format!("{error} is no longer new on {context}")
                }
                None => format!("{context} is no longer {kind}"),
            };
        }
        let (then, now) = (self.then, self.now);
        let times = format!("{:.2} times", self.ratio);
        let shares = || [then, now].map(|share| format!("{:.1} %", 100.0 * share));
        match kind {
            ChangeKind::Slower | ChangeKind::Faster if is_of_queue => {
                format!("requests wait {times} as long as before in front of the service")
            }
            ChangeKind::Slower if self.is_tail => {
                format!("the slowest tenth of {context} takes {times} as long as before")
            }
            ChangeKind::Slower | ChangeKind::Faster => {
                format!("{context} takes {times} as long as before")
            }
            ChangeKind::Failing => {
                let [then, now] = shares();
                format!("{context} is failing: {now} of its requests are errors, {then} before")
            }
            ChangeKind::Surging => {
                format!("{context} surges: {now:.0} requests per minute, {then:.0} before")
            }
            ChangeKind::Silent => {
                format!("{context} is silent: it had {then:.0} requests per minute")
            }
            ChangeKind::Instance => {
                let instance = instance.as_deref().unwrap_or("an instance");
                format!("{instance} is worse than the other instances on {context}: {times}")
            }
            ChangeKind::Refusing => {
                let [then, now] = shares();
                format!("{context} refuses {now} of its requests with 4xx, {then} before")
            }
            ChangeKind::NewError => {
                let (count, s) = (self.requests, if self.requests == 1 { "" } else { "s" });
                format!("{error} is new on {context}: {count} request{s}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Log, tests::slower};

    fn change(kind: ChangeKind, values: (f64, f64, f64), instance: Option<&str>) -> Change {
        let mut log = Log::default();
        let began = log.apply(&[slower("GET /", 600)], 600).began;
        let mut change = log.get(&began[0]).expect("it has begun").clone();
        (change.kind, change.instance) = (kind, instance.map(Into::into));
        (change.then, change.now, change.ratio) = values;
        change
    }

    #[test]
    fn the_name_of_a_person_is_escaped_and_bounded() {
        let by = |name: &str| Acknowledgement::new(name, 7).by.to_string();
        assert_eq!(by(" ada "), "ada");
        assert_eq!(by("a\u{202e}d\na"), "a\\u{202e}d\\na");
        for empty in ["", " ", "\u{a0}"] {
            assert_eq!(by(empty), SOMEONE, "{empty:?}");
        }
        // `é` takes two bytes: the 63 bytes after the `x` have room for 31.
        let x_and = |accents: usize| format!("x{}", "é".repeat(accents));
        assert_eq!(by(&x_and(40)), x_and(31));
        let xs = |count: usize| "x".repeat(count);
        assert_eq!(by(&xs(64)), xs(64));
        assert_eq!(by(&(xs(60) + "\u{202e}")), xs(60));
    }

    #[test]
    fn a_change_names_its_causes() {
        let mut slow = change(ChangeKind::Slower, (0.1, 0.258, 2.58), None);
        assert_eq!(slow.explanation(), "");
        let text = Arc::<str>::from;
        let waiting = Suspect::Waiting {
            then: 0.01,
            now: 0.2,
            share: 1.0,
            text: text("it waits longer"),
        };
        let fails = Suspect::Failures {
            timer: None,
            statuses: Vec::new(),
            code: None,
            error: None,
            text: text("failures with 502"),
        };
        slow.suspects = vec![fails, waiting.clone()];
        let suspect = "Suspect: failures with 502; it waits longer.";
        let says = format!("GET / takes 2.58 times as long as before. {suspect}");
        assert_eq!(slow.to_string(), says);
        slow.ended = Some(60);
        assert_eq!(slow.to_string(), "GET / is no longer slower");
        let mut surge = change(ChangeKind::Surging, (120.0, 721.3, 6.0), None);
        let traffic = Suspect::Traffic {
            busiest: None,
            text: text("latency as before"),
        };
        surge.suspects = vec![traffic, waiting];
        assert_eq!(
            surge.explanation(),
            "Its requests: latency as before. Suspect: it waits longer."
        );
        let mut queue = change(ChangeKind::Slower, (0.012, 0.105, 8.8), None);
        queue.context = QUEUED.into();
        assert_eq!(
            queue.explanation(),
            "Requests wait in front of the instances, not in a page: +93 ms in the queue."
        );
    }

    #[test]
    fn refusing_pages_and_new_errors_are_less_urgent() {
        let kinds = [
            ChangeKind::NewError,
            ChangeKind::Refusing,
            ChangeKind::Failing,
        ];
        let mut changes = kinds.map(|kind| change(kind, (0.1, 0.2, 2.0), None));
        for (extra, change) in (1u8..).zip(&mut changes) {
            change.extra_seconds_per_minute = -f64::from(extra);
        }
        changes.sort_by(Change::by_urgency);
        let order = changes.map(|change| change.kind);
        assert_eq!(order, [kinds[2], kinds[0], kinds[1]]);
    }

    #[test]
    fn a_change_is_a_sentence() {
        let sentences = [
            (ChangeKind::Slower, (0.1, 0.258, 2.58), None),
            (ChangeKind::Failing, (0.041, 0.25, 6.1), None),
            (ChangeKind::Surging, (120.0, 721.3, 6.0), None),
            (ChangeKind::Silent, (40.0, 0.0, 0.0), None),
            (ChangeKind::Instance, (0.1, 0.25, 2.5), Some("web-3")),
            (ChangeKind::Refusing, (0.041, 0.25, 6.1), None),
            (ChangeKind::NewError, (0.0, 0.25, 1.0), None),
        ]
        .map(|(kind, values, instance)| Change {
            error: (kind == ChangeKind::NewError).then(|| "db_\u{202e}timeout".into()),
            ..change(kind, values, instance)
        });
        let begun = [
            "GET / takes 2.58 times as long as before",
            "GET / is failing: 25.0 % of its requests are errors, 4.1 % before",
            "GET / surges: 721 requests per minute, 120 before",
            "GET / is silent: it had 40 requests per minute",
            "web-3 is worse than the other instances on GET /: 2.50 times",
            "GET / refuses 25.0 % of its requests with 4xx, 4.1 % before",
            "db_\\u{202e}timeout is new on GET /: 90 requests",
        ];
        assert_eq!(sentences.each_ref().map(Change::to_string), begun);
        let ended = [
            "GET / is no longer slower",
            "GET / is no longer failing",
            "GET / no longer surges",
            "GET / is no longer silent",
            "web-3 is like the other instances again on GET /",
            "GET / no longer refuses",
            "db_\\u{202e}timeout is no longer new on GET /",
        ];
        for (mut change, ended) in sentences.into_iter().zip(ended) {
            change.ended = Some(60);
            assert_eq!(change.to_string(), ended);
        }
    }
}
