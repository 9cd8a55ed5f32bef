//! The list of the user's counters, in memory and in Redis.

use crate::rig::book;
use crate::rig::server::issue;
use crate::stores::fixture::{Fixture, MS, NOW};
use crate::stores::windows::Dashboard;

const DAY: u32 = 86_400;

async fn names(fixture: &Fixture, precisions: &[u32]) -> Vec<String> {
    let names = fixture.store.query().counter_names(precisions).await;
    names.unwrap()
}

async fn only_the_users_counters_are_listed(mut fixture: Fixture) {
    assert_eq!(names(&fixture, &[DAY]).await, [""; 0]);
    for context in ["GET /", "zz", "<overflow>", "!"] {
        fixture.hit(context, NOW, MS).await;
    }
    let own = "<overflow> \\hits error errors! hits! hits; hitsx micro sales é";
    let mut expected: Vec<_> = own.split(' ').collect();
    let counts: Vec<_> = expected.iter().map(|name| (*name, -1)).collect();
    fixture.count(NOW, &counts).await;
    expected.sort_unstable();
    assert_eq!(names(&fixture, &[DAY]).await, expected);
    assert_eq!(names(&fixture, &[1, 60, DAY]).await, expected);
    assert_eq!(names(&fixture, &[7]).await, [""; 0]);
    // Listing this many names takes more than one command.
    let many = (0..2_500).map(|number| format!("job {number:04}"));
    let many: Vec<_> = many.collect();
    for part in many.chunks(500) {
        let counts: Vec<_> = part.iter().map(|name| (&**name, 1)).collect();
        fixture.count(NOW, &counts).await;
    }
    let listed = names(&fixture, &[DAY]).await;
    assert_eq!(listed.len(), expected.len() + many.len());
    assert!(listed.is_sorted() && many.iter().all(|name| listed.contains(name)));
}

#[tokio::test]
async fn counters_of_other_programs_are_listed_and_garbage_is_not() {
    let fixture = Fixture::redis().await;
    let conn = &mut fixture.server().connection().await;
    let known = "pulse:known:";
    for (name, precisions) in [("visits", &book::PRECISIONS[..]), ("minutes", &[60])] {
        book::update_counter(conn, "pulse:", name, 1, NOW, precisions).await;
    }
    for member in [&b"86400:\xff"[..], b"86400:", b"86400", b"", b"x"] {
        let () = issue(conn, "ZADD", (known, 0, member)).await;
    }
    assert_eq!(names(&fixture, &[DAY]).await, ["visits"]);
    assert_eq!(names(&fixture, &[60, DAY]).await, ["minutes", "visits"]);
    let dashboard = Dashboard::new(&fixture);
    // The counter `minutes` has only slices of a minute. A question about slices of a second is answered too.
    for precision in [1, 60] {
        let uri = format!("counters?name=minutes&precision={precision}");
        assert!(dashboard.get(&uri).await["samples"].is_array());
    }
    let () = issue(conn, "SET", (known, "x")).await;
    assert_eq!(names(&fixture, &[DAY]).await, [""; 0]);
}

in_both!(only_the_users_counters_are_listed);
