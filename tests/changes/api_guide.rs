//! The guide's pages on the API and its objects list the fields of each answer, with their types.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::changes::fleet::{Backend, Fleet, Instance};
use crate::changes::incidents::{Incident, ORDER, PRODUCT, QUERY};
use crate::changes::traffic::{SEARCH, Traffic};
use crate::rig::seed::fixed_seed;

const ENDPOINTS: &str = include_str!("../../src/guide/api.md");
const OBJECTS: &str = include_str!("../../src/guide/objects.md");

/// A line of the page.
#[derive(Clone, Copy)]
struct Line {
    /// The name of a field, `...` for the fields of another object, or a text or type of a value.
    name: &'static str,
    /// The type of a field.
    of: Option<&'static str>,
    about: &'static str,
}

impl Line {
    fn read(line: &'static str) -> Self {
        let (line, about) = line.split_once(": ").unwrap_or((line, ""));
        let mut spans = line.split('`').skip(1).step_by(2);
        let plain = line.rsplit_once(' ').map(|(_, plain)| plain);
        let (name, of) = match spans.next() {
            Some(name) if name.starts_with("...") => ("...", name.get(3..)),
            Some(name) => (name, spans.next().or(plain)),
            None => (line, None),
        };
        Self { name, of, about }
    }
}

/// The lines of each object of the page, by the object's name. Lines about only one kind of an object have the key
/// `name kind`.
struct Guide(BTreeMap<String, Vec<Line>>);

impl Guide {
    fn read() -> Self {
        let mut described = BTreeMap::<String, Vec<Line>>::new();
        let (mut object, mut kind) = ("", "");
        let (_, objects) = OBJECTS.split_once("\n## ").unwrap();
        for line in objects.lines() {
            if let Some(line) = line.strip_prefix("  - ") {
                let of_kind = described.entry(format!("{object} {kind}"));
                of_kind.or_default().push(Line::read(line));
            } else if let Some(line) = line.strip_prefix("- ") {
                let line = Line::read(line);
                kind = line.name;
                described.entry(object.to_owned()).or_default().push(line);
            } else if let Some(name) = line.strip_suffix('`') {
                object = name.trim_start_matches(['#', ' ', '`']);
            }
        }
        assert!(described.len() > 60, "only {} objects", described.len());
        Self(described)
    }

    /// The fields of an object, including those of objects that it includes with `...`, and whether each may be absent.
    fn fields(&self, object: &str) -> Vec<(Line, bool)> {
        let lines = self.0[object].iter().flat_map(|line| match line.name {
            "..." => {
                let of = line.of.unwrap();
                let fields = self.fields(of.trim_end_matches('?')).into_iter();
                let all = fields.map(|(field, may_be)| (field, may_be || of.ends_with('?')));
                all.collect()
            }
            name => vec![(*line, name.ends_with('?'))],
        });
        lines.collect()
    }

    /// Panics unless a value is of a type.
    fn check(&self, value: &Value, of: &str, place: &str) {
        if let Some(of) = of.strip_suffix('?') {
            if !value.is_null() {
                self.check(value, of, place);
            }
            return;
        }
        let list = || {
            let list = value.as_array();
            list.unwrap_or_else(|| panic!("{place}: {value}"))
        };
        if let Some(of) = of.strip_suffix("[]") {
            list().iter().for_each(|value| self.check(value, of, place));
            return;
        }
        if let Some(of) = of.strip_prefix('[').and_then(|of| of.strip_suffix(']')) {
            assert_eq!(list().len(), of.split(", ").count(), "{place}: {value}");
            for (value, of) in list().iter().zip(of.split(", ")) {
                self.check(value, of, place);
            }
            return;
        }
        if Self::is_plain(value, of) {
            return;
        }
        let Some(lines) = self.0.get(of) else {
            panic!("{place} is not {of}: {value}");
        };
        let kind = value.get("kind").and_then(Value::as_str);
        let is_of = |line: &Line| {
            let of = line.name.trim_end_matches('?');
            Self::is_plain(value, of)
                || value.as_str() == Some(of)
                || value.is_object() && self.0.contains_key(of)
                || line.name.ends_with('?') && value.is_null()
        };
        match kind.and_then(|kind| Some((kind, self.0.get_key_value(&format!("{of} {kind}"))?))) {
            Some((kind, (of_kind, _))) => {
                let mut fields = value.clone();
                assert_eq!(
                    fields.as_object_mut().unwrap().remove("kind"),
                    Some(kind.into())
                );
                self.object(&fields, of_kind, place);
            }
            None if lines[0].of.is_some() => self.object(value, of, place),
            None => {
                let line = lines.iter().find(|line| is_of(line));
                let line = line.unwrap_or_else(|| panic!("{place} is no {of}: {value}"));
                if value.is_object() && self.0.contains_key(line.name) {
                    self.object(value, line.name, place);
                }
            }
        }
    }

    fn is_plain(value: &Value, of: &str) -> bool {
        let is_share = |share| (0.0..=1.0).contains(&share);
        match of {
            "integer" => value.is_i64() || value.is_u64(),
            "number" | "seconds" | "moment" => value.is_number(),
            "share" => value.as_f64().is_some_and(is_share),
            "text" => value.is_string(),
            "boolean" => value.is_boolean(),
            "counts" => {
                let counts = value.as_object();
                counts.is_some_and(|counts| counts.values().all(Value::is_u64))
            }
            _ => false,
        }
    }

    /// Panics unless a value has exactly the fields of an object.
    fn object(&self, value: &Value, of: &str, place: &str) {
        let given = value.as_object();
        let given = given.unwrap_or_else(|| panic!("{place} is no {of}: {value}"));
        let fields = self.fields(of);
        for key in given.keys() {
            let mut names = fields.iter().map(|(field, _)| field.name);
            let is_listed = names.any(|name| name.trim_end_matches('?') == key);
            assert!(is_listed, "{place}: {of} does not list {key}");
        }
        for (field, may_be_absent) in fields {
            let place = format!("{place}.{}", field.name);
            match (given.get(field.name.trim_end_matches('?')), field.of) {
                (None, _) => assert!(may_be_absent, "{place} is missing"),
                (Some(value), Some("object")) => {
                    for name in value.as_object().unwrap().keys() {
                        let is_named = field.about.contains(&format!("`{name}`"));
                        assert!(is_named, "{place} does not name {name}");
                    }
                }
                (Some(value), of) => self.check(value, of.unwrap(), &place),
            }
        }
    }
}

/// The endpoints, and the object with which each answers according to the page.
fn endpoints() -> Vec<(String, String)> {
    let rows = ENDPOINTS
        .lines()
        .filter_map(|line| line.strip_prefix("| `api/"));
    let rows = rows.filter_map(|row| {
        let (endpoint, text) = row.split_once('`')?;
        let (_, object) = text.split_once("| [`")?;
        let (object, _) = object.split_once('`')?;
        Some((endpoint.to_owned(), object.to_owned()))
    });
    rows.collect()
}

/// Compares all answers of an instance with the page.
async fn compare(guide: &Guide, instance: &Instance) {
    let known = endpoints();
    assert_eq!(known.len(), 22);
    for (endpoint, object) in known {
        let queries: &[String] = &match &*object {
            "Overview" => vec!["?window=1h".to_owned(), String::new()],
            "Paths" => vec![String::new(), "?kind=all&window=1h&series=p95".to_owned()],
            "Path" => [PRODUCT, ORDER]
                .map(|context| {
                    let context = context.replace(' ', "%20").replace('/', "%2F");
                    format!("?window=15m&context={context}")
                })
                .into_iter()
                .chain([format!("?window=15m&kind=timer&context={QUERY}")])
                .collect(),
            "Instance" => vec!["?window=15m&instance=web-3".to_owned()],
            "Instances" | "FixFirst" => vec!["?window=1h".to_owned()],
            "RankingPart" => vec!["?name=posts".to_owned()],
            "OutcomePaths" => vec!["?window=1h&outcome=2xx".to_owned()],
            "Counters" => vec!["?series=true".to_owned()],
            "CounterSamples" => vec!["?name=sales".to_owned()],
            "Series" => ["hits", "mean", "outcomes", "times"]
                .map(|metric| format!("?window=1h&metric={metric}"))
                .into_iter()
                .chain([String::new()])
                .collect(),
            "HealthStatus" => vec!["?part=status".to_owned()],
            _ => vec![String::new()],
        };
        for query in queries {
            let uri = format!("api/{endpoint}{query}");
            let mut answer = instance.json(&uri).await;
            let as_of = answer.as_object_mut().unwrap().remove("as_of");
            assert!(as_of.is_some_and(|as_of| as_of.is_i64()), "{uri}");
            guide.check(&answer, &object, &uri);
        }
    }
}

#[tokio::test]
async fn the_pages_list_what_is_answered() {
    let guide = Guide::read();
    for incident in [
        Incident::SlowQuery,
        Incident::BadDeploy,
        Incident::BadInstance,
    ] {
        let (fleet, _) = incident.happen(Backend::memory()).await;
        let instance = &fleet.instances[3];
        let pulse = &instance.pulse;
        pulse.counter("sales").add(3);
        pulse.ranking("posts").build().unwrap().add("first", 2);
        pulse.flush().await.unwrap();
        for change in pulse.changes().await.unwrap() {
            // This fails for changes that have ended.
            let _ = pulse.acknowledge_change(&change.id, "ada").await;
        }
        compare(&guide, instance).await;
    }
    // The change of a path is not certain yet, so the path is only listed in `watched`. The second instance, which does
    // not judge, answers.
    let mut fleet = Fleet::new(Backend::memory(), 2);
    let mut traffic = Traffic::new(fixed_seed(), 2);
    fleet.usual(&mut traffic, 60).await;
    fleet.slow(&mut traffic, 2).await;
    let mut answer = fleet.instances[1].json("api/changes").await;
    assert_eq!(answer["watched"][0]["context"], SEARCH, "{answer}");
    assert_eq!(answer["total"], 0, "{answer}");
    answer.as_object_mut().unwrap().remove("as_of");
    guide.check(&answer, "Changes", "api/changes");
}
