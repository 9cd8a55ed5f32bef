//! The seven questions about each incident, asked in Rust. `tests/browser` shows the demo's incidents from memory.

use serde_json::Value;
use tower_pulse::query::{ChangeRow, ChangesQuery, Reader, Verdict};
use tower_pulse::{ChangeKind, Suspect};

use crate::changes::figures::agree;
use crate::changes::fleet::Backend;
use crate::changes::incidents::{Incident, QUERY};

/// An incident that has happened, and the reader of an instance.
struct Asked<'a> {
    incident: Incident,
    began: i64,
    query: &'a Reader,
}

async fn every_question_is_answered(incident: Incident, backend: Backend) {
    let (fleet, began) = incident.happen(backend).await;
    fleet.instances[3]
        .time
        .advance(std::time::Duration::from_secs(2));
    let asked = Asked {
        incident,
        began,
        query: fleet.instances[3].pulse.query(),
    };
    asked.what_has_changed().await;
    asked.what_to_fix_first().await;
    asked.since_when().await;
    asked.my_code_or_which_part().await;
    asked.which_requests().await;
    asked.which_instance().await;
    asked.did_the_deploy_do_it().await;
    agree(asked.query, fleet.now).await;
}

impl Asked<'_> {
    async fn json(&self, question: &str) -> Value {
        let answer = self.query.json(&question.replace(' ', "%20")).await;
        serde_json::from_str(&answer.unwrap()).unwrap()
    }

    async fn what_has_changed(&self) {
        let changes = self.query.ask(&ChangesQuery::default()).await.unwrap();
        let ongoing = changes.changes.iter().filter(|row| row.is_ongoing);
        let ongoing: Vec<_> = ongoing.map(|row| &row.change).collect();
        let about = format!("{:?}: {ongoing:#?}", self.incident);
        let kind = match self.incident {
            Incident::SlowQuery | Incident::BadDeploy => ChangeKind::Slower,
            Incident::Errors => ChangeKind::Failing,
            Incident::Surge => ChangeKind::Surging,
            // All pages of the instance are slow, so changes may name any of them, or all pages of the fleet.
            Incident::BadInstance => {
                assert!(!ongoing.is_empty(), "{about}");
                for change in ongoing {
                    let is_suspect = |suspect: &Suspect| matches!(suspect, Suspect::Instance { instances, .. } if instances.iter().any(|name| **name == *"web-3"));
                    let is_named = change.instance.as_deref() == Some("web-3")
                        || change.suspects.iter().any(is_suspect);
                    assert!(is_named, "{about}");
                }
                return;
            }
        };
        let named = ongoing.iter().map(|change| (change.kind, &*change.context));
        let expected = [(kind, self.incident.page())];
        assert_eq!(named.collect::<Vec<_>>(), expected, "{about}");
    }

    async fn what_to_fix_first(&self) {
        for name in ["15m", "1h", "6h"] {
            let answer = self.json(&format!("fix_first?window={name}")).await;
            let first = &answer["rows"][0];
            let about = format!("{:?}, {name}: {first:#}", self.incident);
            let page = match self.incident {
                Incident::BadInstance => {
                    let is_named = first["instance"] == "web-3" || first["reason"] == "slower";
                    assert!(is_named, "{about}");
                    continue;
                }
                incident => incident.page(),
            };
            assert_eq!(first["context"], page, "{about}");
            let (reason, saves) = match self.incident {
                Incident::Errors => ("failing", false),
                Incident::Surge => ("surging", false),
                _ => ("slower", true),
            };
            assert_eq!(first["reason"], reason, "{about}");
            assert_eq!(first["saved_per_minute"].is_number(), saves, "{about}");
        }
    }

    /// The most urgent ongoing change on the page, or on all pages.
    async fn change(&self) -> ChangeRow {
        let changes = self.query.ask(&ChangesQuery::default()).await.unwrap();
        let ongoing = || changes.changes.iter().filter(|row| row.is_ongoing);
        let of = |context: &str| ongoing().find(|row| *row.change.context == *context);
        let change = of(self.incident.page()).or_else(|| of("<all>"));
        let id = change.expect("something has changed").change.id.clone();
        let mut rows = changes.value.changes.into_iter();
        rows.find(|row| row.change.id == id).unwrap()
    }

    async fn since_when(&self) {
        let row = self.change().await;
        let off = row.change.since.abs_diff(self.began);
        assert!(off <= 120, "{:?}: {off} s off: {row:#?}", self.incident);
    }

    async fn my_code_or_which_part(&self) {
        let change = self.change().await.change;
        let about = format!("{:?}: {change:#?}", self.incident);
        let timer = change.suspects.iter().find_map(|suspect| match suspect {
            Suspect::Timer { timer, share, .. } => Some((&**timer, *share > 0.8)),
            _ => None,
        });
        let instances = change.suspects.iter().find_map(|suspect| match suspect {
            Suspect::Instance { instances, .. } => Some(instances.join(",")),
            _ => None,
        });
        let instances = change
            .instance
            .as_deref()
            .map_or(instances, |name| Some(name.to_owned()));
        let (is_query, are_instances) = match self.incident {
            Incident::SlowQuery => (Some((QUERY, true)), None),
            Incident::BadInstance => (timer, Some("web-3")),
            Incident::BadDeploy => (None, Some("web-1,web-2")),
            Incident::Surge => (timer, None),
            Incident::Errors => (None, None),
        };
        assert_eq!(
            (timer, instances.as_deref()),
            (is_query, are_instances),
            "{about}"
        );
        let says = change.explanation();
        let cause = match self.incident {
            Incident::SlowQuery => "Suspect: db:find_order, ",
            Incident::BadDeploy => {
                "times web-3 and web-4 in the same minutes; version 1.1, as the change began, "
            }
            Incident::Errors => "Suspect: 500 rose from ",
            Incident::Surge => {
                "Its requests: alike on all 4 instances; outcomes as before; latency as before."
            }
            Incident::BadInstance => "web-3: ",
        };
        assert!(says.contains(cause), "{says}");
        // The slow query blocks its worker, so computing is a suspect.
        let computes = |suspect: &Suspect| matches!(suspect, Suspect::Computing { .. });
        let is_blocked = change.suspects.iter().any(computes);
        assert_eq!(is_blocked, self.incident == Incident::SlowQuery, "{about}");
    }

    async fn worst_requests(&self, window: &str) -> Value {
        let page = self.incident.page();
        let answer = self.json(&format!("path?{window}&context={page}")).await;
        answer["window"]["worst_requests"].clone()
    }

    async fn which_requests(&self) {
        let answer = self.worst_requests("window=6h").await;
        let about = format!("{:?}: {answer:#}", self.incident);
        let fails = self.incident == Incident::Errors;
        assert_eq!(answer["failing"], fails, "{about}");
        let requests = answer["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 5, "{about}");
        assert!(
            !fails || requests.iter().all(|request| request["error"] == true),
            "{about}"
        );
        // Requests since the start of the change come first.
        let since = self.change().await.change.since;
        let is_since = |request: &&Value| request["ended"].as_f64().unwrap() >= since as f64;
        let newer = requests.iter().take_while(is_since).count();
        // The requests of a surge are not slower, so the slowest of the hour may all be older.
        assert!(newer > 0 || self.incident == Incident::Surge, "{about}");
        let is_later = requests[newer..].iter().any(|request| is_since(&request));
        assert!(!is_later, "{about}");
        let (from, to) = (self.began - 7_200, self.began - 3_600);
        let before = self.worst_requests(&format!("from={from}&to={to}")).await;
        assert_eq!(
            before["in_window"], false,
            "nothing was recorded then: {before:#}"
        );
    }

    async fn which_instance(&self) {
        let since = self.change().await.change.since;
        let (page, to) = (self.incident.page(), since + 3_600);
        let answer = self
            .json(&format!("instances?from={since}&to={to}&context={page}"))
            .await;
        let about = format!("{:?}: {answer:#}", self.incident);
        let rows = answer["instances"].as_array().unwrap();
        let odd = || rows.iter().filter(|row| row["stands_out"] == true);
        let name = odd().next().map(|row| row["instance"].as_str().unwrap());
        match self.incident {
            Incident::BadInstance => assert_eq!(name, Some("web-3"), "{about}"),
            Incident::BadDeploy => {
                assert!(matches!(name, Some("web-1" | "web-2")), "{about}");
                let versions: Vec<_> = odd().map(|row| &row["version"]).collect();
                assert_eq!(versions, ["1.1"; 2], "{about}");
            }
            _ => assert_eq!(name, None, "{about}"),
        }
    }

    async fn did_the_deploy_do_it(&self) {
        let verdict = self.change().await.deploy;
        let about = format!("{:?}: {verdict:#?}", self.incident);
        let version = verdict
            .mark
            .as_ref()
            .and_then(|mark| mark.version.as_deref());
        if self.incident == Incident::BadDeploy {
            assert_eq!(verdict.verdict, Verdict::Suspected, "{about}");
            assert_eq!(version, Some("1.1"), "{about}");
            let ratio = verdict.side_by_side.expect("both versions ran");
            assert!((2.5..=5.5).contains(&ratio), "{about}");
        } else {
            assert_eq!(verdict.verdict, Verdict::NotTheDeploy, "{about}");
            assert_eq!(version, Some("1.0"), "{about}");
            assert!(verdict.seconds_before >= Some(40 * 60), "{about}");
        }
    }
}

#[tokio::test]
async fn a_slow_query_is_explained() {
    every_question_is_answered(Incident::SlowQuery, Backend::memory()).await;
}

#[tokio::test]
async fn a_bad_instance_is_explained() {
    every_question_is_answered(Incident::BadInstance, Backend::memory()).await;
}

#[tokio::test]
async fn errors_are_explained() {
    every_question_is_answered(Incident::Errors, Backend::memory()).await;
}

#[tokio::test]
async fn a_surge_is_explained() {
    every_question_is_answered(Incident::Surge, Backend::memory()).await;
}

/// On Redis, because the answers about this incident need most of the stored data.
#[tokio::test]
async fn a_bad_deploy_is_explained() {
    every_question_is_answered(Incident::BadDeploy, Backend::redis().await).await;
}
