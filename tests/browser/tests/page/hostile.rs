//! Hostile names: the dashboard shows them as text, and does not break.

use pulse_browser::emulation::Size;
use pulse_browser::page::Page;
use pulse_browser::service::{HOSTILE, Service};

use crate::{keys, save};

const SCREENS: [&str; 8] = [
    "overview", "paths", "slowest", "errors", "timers", "counters", "deploy", "health",
];

#[tokio::test]
async fn names_and_kinds_of_errors_are_text() {
    let service = Service::hostile().await;
    let page = Page::empty().await;
    let opened = HOSTILE.map(|name| format!("path?context={}", encoded(&recorded(name))));
    let instance = format!("instance/{}", encoded(HOSTILE[1]));
    let screens = SCREENS.map(str::to_owned).into_iter().chain(opened);
    let mut faults = Vec::new();
    for screen in screens.chain([instance]) {
        page.resize(Size::DESKTOP).await;
        page.go(&service.screen(&screen)).await;
        page.until_screen(screen.split(['?', '/']).next().unwrap())
            .await;
        let made = page
            .count("img[src=x], script:not([src^='http']):not([src*='assets/']), a[href^='javascript:'], main img")
            .await;
        if made > 0 {
            faults.push(format!("{screen}: a name became {made} elements"));
        }
        for size in [Size::DESKTOP, Size::PHONE] {
            page.resize(size).await;
            if !crate::places::fits(&page).await {
                faults.push(format!("{screen} is wider than {size:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    page.resize(Size::DESKTOP).await;
    let kind = HOSTILE[0];
    let path = format!("path?context={}", encoded(kind));
    for (screen, text) in [
        ("errors?range=1h", "th .path"),
        (&path, ".failure"),
        (&path, "[data-panel=kinds] th .path"),
    ] {
        page.go(&service.screen(screen)).await;
        let shown = format!("$$('{text}').some((one) => one.innerText.startsWith('{kind}'))");
        page.until(&shown).await;
    }
}

/// The form in which a name is recorded.
fn recorded(name: &str) -> String {
    name.replace('\u{202e}', "\\u{202e}")
}

fn encoded(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn each_name_is_shown_and_opens_its_own_screen_and_is_text_in_a_file() {
    let service = Service::hostile().await;
    let page = Page::open(&service.screen("paths")).await;
    let all = format!("{}.length === {}", keys("paths"), HOSTILE.len());
    page.until(&all).await;
    let rows: Vec<String> = page.eval(&keys("paths")).await;
    let text = page.text("table[data-table=paths]").await;
    assert!(!text.contains('\u{202e}'), "{text}");
    assert!(text.contains("<img src=x onerror=alert(1)>"), "{text}");
    let (_, csv) = save(&page, "paths", "csv").await;
    for line in csv.lines().skip(1) {
        let field = line.trim_start_matches('"');
        assert!(!field.starts_with(['=', '+', '-', '@']), "{line}");
    }
    assert!(csv.contains("'=HYPERLINK"), "{csv}");

    for name in HOSTILE.map(recorded) {
        page.show("paths").await;
        page.until(&all).await;
        let index = rows.iter().position(|row| *row == name);
        let index = index.unwrap_or_else(|| panic!("{name:?} is not in {rows:?}"));
        page.click(&format!(
            "table[data-table=paths] tbody tr:nth-child({}) a",
            index + 1
        ))
        .await;
        page.until_screen("path").await;
        let context = "new URLSearchParams(location.hash.split('?')[1]).get('context')";
        assert_eq!(page.eval::<String>(context).await, name);
        page.until("!$('#banner').checkVisibility() && $('[data-tile=requests] .value')?.checkVisibility()")
            .await;
    }
}

/// Saves cells without recording them, because recording escapes some characters.
#[tokio::test]
async fn a_spreadsheet_reads_no_cell_as_a_formula_or_as_two_cells() {
    let cells = [
        ("=1+1", "'=1+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\u{ff1d}1", "'\u{ff1d}1"),
        ("\u{ff0b}1", "'\u{ff0b}1"),
        ("\u{ff0d}1", "'\u{ff0d}1"),
        ("\u{ff20}1", "'\u{ff20}1"),
        ("\u{fe66}1", "'\u{fe66}1"),
        ("  =1", "'  =1"),
        ("\u{a0}\u{3000}+1", "'\u{a0}\u{3000}+1"),
        ("\t=1", "\"'\t=1\""),
        ("\r\n=1", "\"'\r\n=1\""),
        ("\u{0}=1", "'\u{2400}=1"),
        ("\u{1b}\u{7f}@1", "'\u{241b}\\u{7f}@1"),
        ("\u{feff}\u{200b}-1", "'\\u{feff}\\u{200b}-1"),
        ("\u{202e}=1", "'\\u{202e}=1"),
        ("a;b", "\"a;b\""),
        ("a\tb", "\"a\tb\""),
        ("a,b", "\"a,b\""),
        ("a\nb", "\"a\nb\""),
        ("a\"b", "\"a\"\"b\""),
        ("\u{0}\u{1b}[31m", "\u{2400}\u{241b}[31m"),
        ("a\u{2067}b\u{61c}", "a\\u{2067}b\\u{61c}"),
        ("a = b - c @ d", "a = b - c @ d"),
        ("", ""),
        ("größe \u{1f422}", "größe \u{1f422}"),
    ];
    let service = Service::everywhere().await;
    let page = Page::open(&service.screen("paths")).await;
    let rows = serde_json::to_string(&cells.map(|(cell, _)| [cell, "end"])).unwrap();
    page.run(&format!(
        "const rows = [...{rows}, [-1.5, null]]; \
         import(new URL('export.js', $('script[type=module]').src)).then(({{ save }}) => \
         save('csv', {{ name: 'cells', columns: ['=cell', 'end'], rows }}))"
    ))
    .await;
    let (name, csv) = page.download().await;
    assert!(
        name.starts_with("cells_") && name.ends_with("Z.csv"),
        "{name}"
    );
    let cells = cells.map(|(_, cell)| format!("{cell},end\r\n"));
    assert_eq!(csv, format!("'=cell,end\r\n{}-1.5,\r\n", cells.concat()));
}

#[tokio::test]
async fn an_invalid_state_becomes_the_default() {
    let service = Service::everywhere().await;
    let page = Page::empty().await;
    for state in [
        "__proto__?range=__proto__&sort=constructor&order=toString",
        "overview?range=constructor&refresh=1e9&precision=-1",
        "paths?refresh=2147484&precision=7&from=5000000000&to=5000003600",
        "paths?from=99999999999&to=1&limit=7&hide=__proto__",
        "counters?limit=99999999999&offset=99999999999",
        "paths?offset=99999999999&limit=50",
    ] {
        page.go(&service.screen(state)).await;
        page.until("!$('#banner').checkVisibility()").await;
        let range = page.count("input[name=range]:checked").await;
        assert_eq!(range, 1, "{state}");
        for select in ["refresh", "precision"] {
            let value = format!("$('#{select}').selectedIndex");
            assert!(page.eval::<i32>(&value).await >= 0, "{select} of {state}");
        }
    }
    // An offset that is too large shows the last page.
    page.until(&format!("{}.length > 0", keys("paths"))).await;
}
