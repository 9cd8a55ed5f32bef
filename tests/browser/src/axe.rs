//! Accessibility, as axe-core judges it.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use crate::page::Page;

/// axe-core's script, which npm downloads into the target directory. npm compares the digest with the lock file.
static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    let test = std::env::current_exe().expect("the path of this test");
    // The test binary is in `target/PROFILE/deps`.
    let target = test.ancestors().nth(3).expect("the target directory");
    let dir = target.join("axe");
    let script = dir.join("node_modules/axe-core/axe.min.js");
    if !script.exists() {
        std::fs::create_dir_all(&dir).expect("a folder for axe-core");
        for name in ["package.json", "package-lock.json"] {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("axe").join(name);
            std::fs::copy(file, dir.join(name)).expect("a copy of a file that npm reads");
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        let status = npm.current_dir(dir).status();
        let is_installed = status.is_ok_and(|status| status.success());
        assert!(
            is_installed,
            "`npm ci` could not get axe-core: run `make setup`"
        );
    }
    std::fs::read_to_string(script).expect("the script of axe-core")
});

impl Page {
    /// The rules of axe-core that the current screen breaks, each with up to three of the elements that break it.
    /// Checks one rule, or all rules if `rule` is `None`.
    pub async fn violations(&self, rule: Option<&str>) -> Vec<String> {
        // The debugger runs the script, because the page's content security policy allows only the page's own scripts.
        if !self.eval::<bool>("typeof axe === 'object'").await {
            self.run(&format!("{};undefined", *SCRIPT)).await;
        }
        let only = rule.map_or_else(String::new, |rule| format!("runOnly: ['{rule}'], "));
        let violations = format!(
            "axe.run(document, {{{only}iframes: false, preload: false, resultTypes: ['violations']}}).then(({{violations}}) => violations.map(
                ({{id, help, nodes}}) => `${{id}} (${{help}}), ${{nodes.length}} times: ${{nodes.slice(0, 3).map(
                    (node) => `${{node.target.join(' ')}}: ${{node.failureSummary}}`).join(' | ')}}`))"
        );
        self.eval(&violations).await
    }
}
