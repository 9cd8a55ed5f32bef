//! Shows the dashboard of one version with the API of another, as when both versions serve behind one load balancer:
//! `make test-all-versions`. The argument is the demo of the other version. Prints what each screen shows. Fails if a
//! screen shows neither its figures nor a reason why they are missing.
#![allow(clippy::print_stdout, reason = "the output is a table")]

use std::path::PathBuf;
use std::process::ExitCode;

use pulse_browser::page::Page;
use pulse_browser::proxy::ReverseProxy;
use pulse_browser::rig::demo::{Demo, built};
use pulse_browser::screens::SCREENS;

const ENV: [(&str, &str); 2] = [("DEMO_HISTORY", "3h"), ("DEMO_INCIDENT", "bad_deploy")];

/// The screen shows answers, and the dashboard reports no problem.
const IS_DRAWN: &str = "document.body.dataset.ready === 'true' && document.querySelector('#status').dataset.status === 'ok'
    && document.querySelector('#banner').hidden && document.querySelector('main').innerText.trim().length > 0";
/// The dashboard says that it cannot read the answer.
const SAYS_UNEXPECTED: &str = "document.querySelector('#status').dataset.status === 'unexpected'
    && /another version/.test(document.querySelector('#banner').innerText)";

#[tokio::main]
async fn main() -> ExitCode {
    let Some(other) = std::env::args_os().nth(1).map(PathBuf::from) else {
        println!("usage: versions THE DEMO OF ANOTHER VERSION");
        return ExitCode::FAILURE;
    };
    let patience = std::time::Duration::from_secs(600);
    let this = Demo::start_within(patience, built(), &[], &ENV).await;
    let other = Demo::start_within(patience, other, &[], &ENV).await;
    let (this, other) = (this.address(), other.address());
    for (name, page, api) in [
        ("this dashboard, the other's API", this, other),
        ("the other's dashboard, this API", other, this),
    ] {
        println!("{name}");
        let proxy = ReverseProxy::between("", page, api).await;
        for screen in SCREENS {
            show(screen.name, &proxy.screen(screen.fragment)).await;
        }
    }
    ExitCode::SUCCESS
}

async fn show(screen: &str, url: &str) {
    let page = Page::empty().await;
    // The dashboard logs a `TypeError` for an answer that it cannot draw.
    page.tolerate("console: TypeError");
    page.load(url).await;
    page.until(&format!("({IS_DRAWN}) || ({SAYS_UNEXPECTED})"))
        .await;
    let refused = page.text("#complete").await;
    let shown = match page.eval::<bool>(&format!("!!({IS_DRAWN})")).await {
        true if refused.is_empty() => "drawn".to_owned(),
        true => format!("drawn, and says: {refused}"),
        false => "says that the answer may come from another version".to_owned(),
    };
    println!("  {screen:<10} {shown}");
}
