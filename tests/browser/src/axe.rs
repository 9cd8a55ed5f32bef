//! Accessibility, as axe-core judges it.

use serde::Deserialize;

use crate::axe_package;
use crate::page::Page;

/// A rule that a screen breaks.
#[derive(Clone, Debug, Deserialize)]
pub struct Violation {
    /// The rule, as `color-contrast`.
    pub id: String,
    /// What it asks for.
    pub help: String,
    /// What breaks it: the selector of each element, and why.
    pub nodes: Vec<String>,
}

impl Page {
    /// The rules of axe-core that the screen breaks, as it is now.
    pub async fn violations(&self) -> Vec<Violation> {
        // By the debugger, as the page's policy lets no script in that is not its own.
        if !self.eval::<bool>("typeof axe === 'object'").await {
            self.run(&format!("{};undefined", axe_package::script()))
                .await;
        }
        self.eval(
            "axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations.map((violation) => ({
                id: violation.id,
                help: violation.help,
                nodes: violation.nodes.map((node) => `${node.target.join(' ')}: ${node.failureSummary}`),
            })))",
        )
        .await
    }

    /// Adds the violations of this screen to what is reported in the end, with `about` in front.
    pub async fn check_accessibility(&self, about: &str, reports: &mut Vec<String>) {
        for Violation { id, help, nodes } in self.violations().await {
            let shown = nodes.iter().take(3).map(|node| node.replace('\n', " "));
            let shown: Vec<_> = shown.collect();
            reports.push(format!(
                "{about}: {id} ({help}), {} times: {}",
                nodes.len(),
                shown.join(" | ")
            ));
        }
    }
}
