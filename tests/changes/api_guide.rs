//! The guide's page about the API lists the fields of each answer, with their types.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::fleet::{Backend, Instance};
use crate::incidents::{Incident, ORDER, PRODUCT, QUERY};
use crate::watched::watching;

const PAGE: &str = include_str!("../../src/guide/api.md");

/// A field, or all fields of another object, of some type.
struct Field {
    name: Option<String>,
    of: String,
    is_optional: bool,
}

/// An object of the page, or the texts that a value may have.
enum Described {
    Object(Vec<Field>),
    Texts(BTreeSet<String>),
}

/// What the page says.
struct Guide {
    described: BTreeMap<String, Described>,
    /// The fields that were seen in an answer.
    seen: BTreeSet<(String, String)>,
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches('`').to_owned()
}

impl Guide {
    fn read() -> Self {
        let (_, objects) = PAGE.split_once("# Objects").unwrap();
        let described = objects.split("\n### ").skip(1).map(|section| {
            let (name, text) = section.split_once('\n').unwrap();
            let mut rows = text.lines().filter(|line| line.starts_with('|'));
            let is_of_texts = rows.next().unwrap().starts_with("| Text |");
            let cells = rows.skip(1).map(|row| {
                let mut cells = row.split(" | ").map(|cell| cell.trim_matches(['|', ' ']));
                (cells.next().unwrap(), cells.next().unwrap())
            });
            let described = match is_of_texts {
                true => Described::Texts(cells.map(|(text, _)| unquoted(text)).collect()),
                false => Described::Object(cells.map(|(name, of)| Field::new(name, of)).collect()),
            };
            (unquoted(name), described)
        });
        let described: BTreeMap<_, _> = described.collect();
        assert!(described.len() > 60, "only {} objects", described.len());
        Self {
            described,
            seen: BTreeSet::new(),
        }
    }

    /// The fields of an object with those of the objects within it, each with the object that lists it.
    fn fields(&self, object: &str) -> Vec<(&str, &Field)> {
        let Some((name, Described::Object(fields))) = self.described.get_key_value(object) else {
            panic!("the page has no object {object}");
        };
        let all = fields.iter().flat_map(|field| match field.name {
            Some(_) => vec![(&**name, field)],
            None => self.fields(&unquoted(&field.of)),
        });
        all.collect()
    }

    /// Fails unless a value is of a type.
    fn check(&mut self, value: &Value, of: &str, place: &str) {
        if let Some(of) = of.strip_prefix("list of ") {
            let list = value
                .as_array()
                .unwrap_or_else(|| panic!("{place}: {value}"));
            list.iter().for_each(|value| self.check(value, of, place));
            return;
        }
        if let Some(of) = of.strip_suffix(" or null") {
            if !value.is_null() {
                self.check(value, of, place);
            }
            return;
        }
        if let Some(of) = of.strip_prefix('(').and_then(|of| of.strip_suffix(')')) {
            let list = value
                .as_array()
                .unwrap_or_else(|| panic!("{place}: {value}"));
            assert_eq!(list.len(), of.split(", ").count(), "{place}: {value}");
            for (value, of) in list.iter().zip(of.split(", ")) {
                self.check(value, of, place);
            }
            return;
        }
        let is_right = match of {
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "text" => value.is_string(),
            "boolean" => value.is_boolean(),
            "counts" => {
                let counts = value.as_object();
                counts.is_some_and(|counts| counts.values().all(Value::is_u64))
            }
            "value" if value.is_object() && value.get("p99").is_some() => {
                return self.object(value, "SliceTimes", place);
            }
            "value" => value.is_number() || value.is_null() || value.is_object(),
            of => {
                let name = unquoted(of);
                match self.described.get(&name) {
                    Some(Described::Texts(texts)) => {
                        value.as_str().is_some_and(|text| texts.contains(text))
                    }
                    _ => return self.object(value, &name, place),
                }
            }
        };
        assert!(is_right, "{place} is not {of}: {value}");
    }

    fn object(&mut self, value: &Value, name: &str, place: &str) {
        let given = value.as_object();
        let given = given.unwrap_or_else(|| panic!("{place} is no {name}: {value}"));
        let fields: Vec<(String, String, String, bool)> = self
            .fields(name)
            .into_iter()
            .map(|(object, field)| {
                let name = field.name.clone().unwrap();
                (object.to_owned(), name, field.of.clone(), field.is_optional)
            })
            .collect();
        let is_optional = self.has_optional_part(name);
        for key in given.keys() {
            let is_known = fields.iter().any(|(_, name, _, _)| name == key);
            assert!(is_known, "{place}: {name} does not list {key}");
        }
        for (object, field, of, may_be_absent) in fields {
            let Some(value) = given.get(&field) else {
                assert!(may_be_absent || is_optional, "{place}: {field} is missing");
                continue;
            };
            self.check(value, &of, &format!("{place}.{field}"));
            self.seen.insert((object, field));
        }
    }

    /// Whether all fields of another object may be absent from it.
    fn has_optional_part(&self, object: &str) -> bool {
        let Some(Described::Object(fields)) = self.described.get(object) else {
            return false;
        };
        fields
            .iter()
            .any(|field| field.name.is_none() && field.is_optional)
    }
}

impl Field {
    fn new(name: &str, of: &str) -> Self {
        let required = of.strip_suffix(", may be absent");
        Self {
            name: (name != "*fields of*").then(|| unquoted(name)),
            of: required.unwrap_or(of).to_owned(),
            is_optional: required.is_some(),
        }
    }
}

/// The endpoints, and the objects that the page says that they answer with.
fn endpoints() -> Vec<(String, String)> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `api/"));
    let rows = rows.filter_map(|row| {
        let (endpoint, text) = row.split_once('`')?;
        let (_, object) = text.split_once("| [`")?;
        let (object, _) = object.split_once('`')?;
        Some((endpoint.to_owned(), object.to_owned()))
    });
    rows.collect()
}

/// Compares all answers of an instance with the page.
async fn compare(guide: &mut Guide, instance: &Instance) {
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
            guide.object(&answer, &object, &uri);
        }
    }
}

/// What these incidents, in memory, do not show.
const UNSEEN: [&str; 8] = [
    "Advice",
    "FailedRow",
    "RowSums",
    "Earlier",
    "HourOfWeek",
    "JournalHealth",
    "Problem",
    "RowInfo",
];

#[tokio::test]
async fn the_page_lists_what_is_answered() {
    let mut guide = Guide::read();
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
            // Those that have ended cannot be taken.
            let _ = pulse.acknowledge_change(&change.id, "ada").await;
        }
        compare(&mut guide, instance).await;
    }
    let mut answer = watching().await;
    answer.as_object_mut().unwrap().remove("as_of");
    guide.object(&answer, "Changes", "api/changes");
    let mut unseen = Vec::new();
    for (object, described) in &guide.described {
        let Described::Object(fields) = described else {
            continue;
        };
        for name in fields.iter().filter_map(|field| field.name.as_ref()) {
            if !guide.seen.contains(&(object.clone(), name.clone())) && !UNSEEN.contains(&&**object)
            {
                unseen.push(format!("{object}.{name}"));
            }
        }
    }
    assert!(unseen.is_empty(), "no answer has {unseen:#?}");
}
