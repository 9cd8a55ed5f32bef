//! Names that nobody chose kindly: everything from outside is text, and nothing breaks the page.

use pulse_browser::emulation::Size;
use pulse_browser::page::{Page, quoted};
use pulse_browser::service::{HOSTILE, Service};

use crate::save;

const SCREENS: [&str; 7] = [
    "overview", "paths", "slowest", "timers", "counters", "deploy", "health",
];

#[tokio::test]
async fn names_are_text() {
    let service = Service::hostile().await;
    let page = Page::empty().await;
    let mut faults = Vec::new();
    for size in [Size::DESKTOP, Size::PHONE] {
        page.resize(size).await;
        let opened = HOSTILE.map(|name| format!("path?context={}", encoded(&recorded(name))));
        let instances = HOSTILE.map(|name| format!("instance/{}", encoded(name)));
        let screens = SCREENS
            .map(str::to_owned)
            .into_iter()
            .chain(opened)
            .chain(instances);
        for screen in screens {
            let url = service.url(&format!("/admin/pulse#{screen}"));
            page.go(&url).await;
            page.until_screen(screen.split(['?', '/']).next().unwrap())
                .await;
            let made = page.count("img[src=x], script:not([src^='http']):not([src*='assets/']), a[href^='javascript:'], main img").await;
            if made > 0 {
                faults.push(format!("{screen}: a name became {made} elements"));
            }
            let (inner, outer): (f64, f64) = page
                .eval(
                    "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
                )
                .await;
            if inner > outer {
                faults.push(format!("{screen}: {inner} pixels in a window of {outer}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    page.end().await;
}

/// The name under which something is recorded.
fn recorded(name: &str) -> String {
    name.replace('\u{202e}', "\\u{202e}")
}

fn encoded(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn each_name_is_shown_and_opens_its_own_screen() {
    let service = Service::hostile().await;
    let page = Page::open(&service.url("/admin/pulse#paths")).await;
    let rows: Vec<String> = page
        .each("table[data-table=paths] tbody tr", "element.dataset.key")
        .await;
    assert_eq!(rows.len(), HOSTILE.len(), "{rows:?}");
    for name in HOSTILE.map(recorded) {
        page.go(&service.url("/admin/pulse#paths")).await;
        page.until_screen("paths").await;
        page.until(
            "the rows are drawn",
            &format!(
                "document.querySelectorAll('table[data-table=paths] tbody tr').length === {}",
                HOSTILE.len()
            ),
        )
        .await;
        let index = rows
            .iter()
            .position(|row| *row == name)
            .unwrap_or_else(|| panic!("{name:?} is not in {rows:?}"));
        let row = format!("table[data-table=paths] tbody tr:nth-child({})", index + 1);
        let key: String = page
            .eval(&format!(
                "document.querySelector({}).dataset.key",
                quoted(&row)
            ))
            .await;
        page.click(&format!("{row} a")).await;
        page.until(
            &format!("{name:?} is opened"),
            "document.body.dataset.screen === 'path' && document.body.dataset.ready === 'true'",
        )
        .await;
        let context: String = page
            .eval("new URLSearchParams(location.hash.split('?')[1]).get('context')")
            .await;
        assert_eq!(context, key);
        page.until("it is known", "!document.querySelector('#banner').checkVisibility() && document.querySelector('[data-tile=requests] .value')?.checkVisibility()").await;
    }
    page.end().await;
}

#[tokio::test]
async fn marks_that_turn_text_around_are_made_visible() {
    let service = Service::hostile().await;
    let page = Page::open(&service.url("/admin/pulse#paths")).await;
    let text = page.text("table[data-table=paths]").await;
    assert!(!text.contains('\u{202e}'), "{text}");
    assert!(text.contains("<img src=x onerror=alert(1)>"), "{text}");
    page.end().await;
}

#[tokio::test]
async fn a_formula_in_a_file_is_text() {
    let service = Service::hostile().await;
    let page = Page::open(&service.url("/admin/pulse#paths")).await;
    let (_, csv) = save(&page, "paths", "csv").await;
    for line in csv.lines().skip(1) {
        let field = line.trim_start_matches('"');
        assert!(!field.starts_with(['=', '+', '-', '@']), "{line}");
    }
    assert!(csv.contains("'=HYPERLINK"), "{csv}");
    page.end().await;
}

/// Saves cells that no name of the service could have, as names are escaped when they are recorded.
#[tokio::test]
async fn no_spreadsheet_takes_a_cell_for_a_formula_or_for_two() {
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
        ("\tb", "\"'\tb\""),
        ("\u{0}\u{1b}[31m", "\u{2400}\u{241b}[31m"),
        ("a\u{2067}b\u{61c}", "a\\u{2067}b\\u{61c}"),
        ("a = b - c @ d", "a = b - c @ d"),
        ("", ""),
        ("größe \u{1f422}", "größe \u{1f422}"),
    ];
    let service = Service::hostile().await;
    let page = Page::open(&service.url("/admin/pulse#paths")).await;
    let rows = serde_json::to_string(&cells.map(|(cell, _)| [cell, "end"])).unwrap();
    page.run(&format!(
        "const app = document.querySelector('script[type=module]').src; \
         const rows = [...{rows}, [-1.5, null]]; \
         import(new URL('export.js', app)).then(({{ save }}) => \
         save('csv', {{ name: 'cells', columns: ['=cell', 'end'], rows }}))"
    ))
    .await;
    let (name, csv) = page.download().await;
    assert_eq!(name, "cells.csv");
    let mut expected = "'=cell,end\r\n".to_owned();
    for (_, cell) in cells {
        expected += &format!("{cell},end\r\n");
    }
    assert_eq!(csv, expected + "-1.5,\r\n");
    page.end().await;
}

#[tokio::test]
async fn a_state_that_makes_no_sense_is_the_default() {
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
        let url = service.url(&format!("/admin/pulse#{state}"));
        page.go(&url).await;
        page.until(
            &format!("{state}: there is no complaint"),
            "!document.querySelector('#banner').checkVisibility()",
        )
        .await;
        let range: Vec<String> = page
            .each("input[name=range]:checked", "element.value")
            .await;
        assert_eq!(range.len(), 1, "{state}");
        for select in ["refresh", "precision"] {
            let value = format!("document.querySelector('#{select}').selectedIndex");
            assert!(page.eval::<i32>(&value).await >= 0, "{select} of {state}");
        }
    }
    page.go(&service.url("/admin/pulse#paths?offset=99999999999&limit=50"))
        .await;
    page.until(
        "the last page is shown",
        "document.querySelectorAll('table[data-table=paths] tbody tr').length > 0",
    )
    .await;
    page.end().await;
}
