//! Single calls, in states that random schedules rarely reach.

use redis::cmd;
use tower_pulse_core::store::journal::{
    Acquired, Amendment, Entry, Journal, Progress, VersionedResult,
};
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::{Append, Appended, Generation, Position};
use tower_pulse_model::context::Kind;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::round::partition;

use crate::journal::drive::{Drive, LEASE, contexts};
use crate::journal::foreign::has_warning;
use crate::journal::net::{Amending, Reply, Request};
use crate::journal::step::{is_fold, partitions};
use crate::journal::tested_store::TestedStore;
use crate::rig::lua::script;
use crate::stores::fixture::NOW;

const LEASE_MILLIS: i64 = 5_000;
const MAX_ASIDE: usize = 100;
/// The most records that one HSET writes.
const RECORDS_AT_ONCE: usize = 500;
const WEEK: i64 = 7 * 86_400;

/// A journal with `calls` calls of one request each.
fn journal_of(calls: usize) -> Drive {
    let (drive, mut flushing, _) = Drive::with_processes();
    for _ in 0..calls {
        drive.send(&mut flushing, &contexts(1));
    }
    drive
}

fn acquire(drive: &Drive, version: &str) -> Progress {
    let acquired = drive.data.block_on(drive.data.store.acquire("a", version));
    match acquired.unwrap() {
        Acquired::Mine(progress) => progress,
        other => panic!("{other:?}"),
    }
}

fn read(drive: &Drive, version: &str, bytes: u64) -> Vec<Entry> {
    let after = Position::default();
    let read = drive.data.store.read("a", version, after, bytes);
    match drive.data.block_on(read).unwrap() {
        VersionedResult::Done(read) => read.entries,
        other => panic!("{other:?}"),
    }
}

fn amend(
    drive: &Drive,
    version: &str,
    next: &str,
    amendment: Amendment<'_>,
) -> VersionedResult<()> {
    let amended = drive.data.store.amend(version, next, amendment);
    drive.data.block_on(amended).unwrap()
}

fn hello(drive: &Drive) -> Generation {
    drive.data.block_on(drive.data.store.hello()).unwrap()
}

fn length(drive: &Drive, stream: &str) -> usize {
    drive.data.query(cmd("XLEN").arg(stream))
}

#[test]
fn each_call_of_a_folder_prolongs_its_lease() {
    let drive = journal_of(1);
    let mut folding = drive.folder("folder");
    let calls: [fn(&Request) -> bool; 4] = [
        |request| matches!(request, Request::Acquire(..)),
        |request| matches!(request, Request::Read(..)),
        |request| matches!(request, Request::LoadFields(..)),
        is_fold,
    ];
    for is_next in calls {
        let request = drive.until(&mut folding, is_next).unwrap();
        // Frees the lease, as if it had expired. The folder continues, because no other instance acquires the lease.
        drive.free_lease();
        drive.deliver(&folding);
        let left: i64 = drive.data.query(cmd("PTTL").arg(LEASE));
        assert!((1..=LEASE_MILLIS).contains(&left), "{request:?}: {left}");
    }
}

#[test]
fn a_repeated_call_is_answered_with_the_position_of_its_entry() {
    let drive = journal_of(2);
    let append = drive.until_append(&mut drive.flusher(), &contexts(1));
    let Ok(Reply::Append(Appended::Done(first))) = drive.data.run(&append) else {
        panic!("not appended");
    };
    let Ok(Reply::Append(Appended::Duplicate(again))) = drive.data.run(&append) else {
        panic!("not a duplicate");
    };
    assert_eq!(again.position, first.position);
    assert_eq!(again.folded, first.folded);
    assert!(again.folded < again.position);
}

/// The instance has never appended, so neither generation has a fence of the instance.
#[test]
fn the_first_call_of_an_instance_is_not_appended_in_another_generation() {
    let drive = journal_of(1);
    let append = drive.until_append(&mut drive.flusher(), &contexts(1));
    let () = drive.data.query(&cmd("FLUSHALL"));
    hello(&drive);
    let reply = drive.data.run(&append).unwrap();
    let is_reset = matches!(reply, Reply::Append(Appended::Reset));
    assert!(is_reset, "{reply:?}");
    assert_eq!(drive.entries(), 0);
}

/// If a failover loses another instance's call, later calls may get the same offset and time as before.
#[test]
fn the_id_of_an_entry_depends_on_the_entries_before_it() {
    const SNAPSHOT: usize = 1;
    let drive = Drive::start();
    let [lost, other, last] =
        [(); 3].map(|()| drive.until_append(&mut drive.flusher(), &contexts(1)));
    drive.data.save(SNAPSHOT);
    let heads = [lost, other].map(|first| {
        drive.data.restore(SNAPSHOT);
        for append in [&first, &last] {
            let reply = drive.data.run(append).unwrap();
            let is_done = matches!(reply, Reply::Append(Appended::Done(_)));
            assert!(is_done, "{reply:?}");
        }
        drive.head()
    });
    assert_eq!(heads[0].offset, heads[1].offset);
    assert_ne!(heads[0], heads[1]);
}

#[test]
fn a_full_journal_accepts_calls_again_when_it_is_folded() {
    const JOURNAL_BYTES: u64 = 1_000;
    let drive = Drive::with_journal_bytes(JOURNAL_BYTES);
    let mut flushing = drive.flusher();
    let mut folding = drive.folder("folder");
    let (mut calls, mut full_at) = (0, 0);
    for _ in 0..2 {
        loop {
            assert!(calls < JOURNAL_BYTES, "the journal is never full");
            drive.until_append(&mut flushing, &contexts(1));
            calls += 1;
            let is_full = matches!(drive.deliver(&flushing), Reply::Append(Appended::Full));
            drive.run_once(&mut flushing);
            if is_full {
                break;
            }
        }
        // A journal with any room accepts a call, so the newest entry ends beyond the limit.
        let head = drive.head().offset;
        assert!((full_at + JOURNAL_BYTES..full_at + 2 * JOURNAL_BYTES).contains(&head));
        full_at = head;
        drive.run_times(&mut folding, 2);
        assert_eq!(drive.number("trimmed"), full_at);
    }
    drive.run_once(&mut flushing);
    drive.run_once(&mut folding);
    assert_eq!(drive.counted("GET /0"), (calls, calls));
}

#[test]
fn a_read_returns_as_many_entries_as_its_limit_in_bytes_allows() {
    let drive = journal_of(20);
    acquire(&drive, "v");
    let all = read(&drive, "v", u64::from(u32::MAX));
    let ends: Vec<u64> = all.iter().map(|entry| entry.position.offset).collect();
    assert_eq!(ends.len(), 20);
    // A read counts some bytes for each entry besides the entry's payload.
    for (limit, count) in [(1, 1), (ends[1], 1), (ends[1] + 400, 2)] {
        assert_eq!(read(&drive, "v", limit).len(), count, "{limit} of {ends:?}");
    }
    // An offset is the number of appended bytes: for each entry, the bytes of its payload and one more.
    let lengths = all.iter().map(|entry| entry.payload.len() as u64 + 1);
    assert_eq!(lengths.sum::<u64>(), ends[19]);
}

#[test]
fn a_read_under_another_version_has_no_effect() {
    let drive = journal_of(1);
    acquire(&drive, "v1");
    acquire(&drive, "v2");
    drive.free_lease();
    let (instance, version) = ("a".to_owned(), "v1".to_owned());
    let after = Position::default();
    let entries = Request::Read(instance.clone(), version.clone(), after, 1);
    let record = RecordId::new(Kind::Http, "GET /0").to_bytes().to_vec();
    let records = vec![(Table::records((60, NOW)), vec![record])];
    let records = Request::LoadFields(instance, version, records);
    for read in [entries, records] {
        let reply = drive.data.run(&read).unwrap();
        let is_stale = matches!(
            reply,
            Reply::Read(VersionedResult::Stale(_)) | Reply::LoadFields(VersionedResult::Stale(_))
        );
        assert!(is_stale, "{reply:?}");
        let lease: Option<String> = drive.data.query(cmd("GET").arg(LEASE));
        assert_eq!(lease, None, "the read acquires the lease");
    }
}

#[test]
fn a_folder_that_takes_over_learns_which_slices_are_rolled_up() {
    let (drive, mut flushing, mut folding) = Drive::with_processes();
    for _ in 0..3 {
        drive.send(&mut flushing, &contexts(1));
        drive.run_once(&mut folding);
        drive.advance(90);
    }
    drive.free_lease();
    let rolled = acquire(&drive, "v").rolled;
    assert!(!rolled.is_pending(NOW), "the first minute is rolled up");
    let packed = tower_pulse_model::pack::to_hex(&rolled);
    assert_eq!(packed, drive.field("rolled"));
}

#[test]
fn a_hole_is_closed_only_if_its_entries_are_missing() {
    let drive = journal_of(2);
    acquire(&drive, "v1");
    let before = drive.data.state();
    let close = |version, next| amend(&drive, version, next, Amendment::CloseHole);
    assert_eq!(close("v1", "v2"), VersionedResult::Done(()));
    let mut after = drive.data.state();
    assert_eq!(after.insert("v".into(), "v1".into()).unwrap(), "v2");
    assert_eq!(after, before);
    let stale = VersionedResult::Stale("v2".to_owned());
    assert_eq!(close("v1", "v3"), stale, "another version");
    // A hole can also be closed on a server that is out of memory.
    drive.delete("pulse:journal");
    drive.limit_memory("1");
    assert_eq!(close("v2", "v3"), VersionedResult::Done(()));
    drive.limit_memory("0");
    assert!(drive.data.is_folded());
    assert_eq!(drive.number("need"), 0, "no entry of any version is left");
    let head = drive.head().offset;
    // The bytes of the missing entries do not count towards a full journal.
    assert_eq!(
        (drive.number("hole"), drive.number("trimmed")),
        (head, head)
    );
}

/// Entries that were appended after the beginning of the round are folded once, in the next round.
#[test]
fn only_the_round_whose_entries_are_missing_is_skipped() {
    let (drive, mut flushing, _) = Drive::with_processes();
    let names = contexts(120);
    drive.send(&mut flushing, &names);
    let mut dead = drive.folder("dead");
    let Some(Request::Fold(first)) = drive.until(&mut dead, is_fold) else {
        panic!("no step");
    };
    assert!(first.done.is_some(), "the round has only one step");
    drive.deliver(&dead);
    drive.send(&mut flushing, &names);
    let end = first.round_end.unwrap();
    let gone = end.to_string();
    let () = drive.data.query(cmd("XDEL").arg("pulse:journal").arg(gone));
    drive.free_lease();

    let mut next = drive.folder("next");
    drive.until(&mut next, |request| {
        matches!(request, Request::Amend(_, _, Amending::CloseHole))
    });
    drive.deliver(&next);
    assert_eq!(drive.field("low"), end.to_string());
    assert_eq!(drive.field("upto") + &drive.field("done"), "");
    assert_eq!(drive.number("hole"), end.offset);
    drive.run_times(&mut next, 2);
    assert!(drive.data.is_folded());
    let is_done = |name: &String| partitions(&first).contains(&partition(name));
    let (done, others): (Vec<_>, Vec<_>) = names.into_iter().partition(is_done);
    drive.assert_counted(&done, &[3_600], 2);
    drive.assert_counted(&others, &[3_600], 1);
}

/// The folder reads fences page by page, and then removes the old fences of a page by a script. This test calls the
/// script directly.
#[test]
fn a_fence_that_has_changed_since_it_was_read_stays() {
    let drive = journal_of(1);
    acquire(&drive, "v");
    drive.set("f:idle", "7 1");
    drive.set("f:busy", "8 2");
    let mut eval = cmd("EVAL");
    eval.arg(script("amend")).arg(3);
    eval.arg(&["pulse:state", "pulse:journal", "pulse:aside"]);
    eval.arg(&["v", "v", "FENCES", "f:idle", "7 1", "f:busy", "7 1"]);
    let reply: (String, usize, String) = drive.data.query(&eval);
    assert_eq!(reply, ("DONE".to_owned(), 1, String::new()));
    let state = drive.data.state();
    assert_eq!((state.get("f:idle"), &*state["f:busy"]), (None, "8 2"));
}

#[test]
fn an_entry_is_set_aside_once() {
    let drive = journal_of(2);
    acquire(&drive, "v1");
    let entries = read(&drive, "v1", u64::from(u32::MAX));
    let set_aside = |version: &str, next: &str, entry: usize| {
        let entry = Amendment::SetAside(&entries[entry]);
        amend(&drive, version, next, entry)
    };
    assert_eq!(set_aside("v1", "v2", 0), VersionedResult::Done(()));
    let stale = VersionedResult::Stale("v2".to_owned());
    assert_eq!(set_aside("v1", "v2", 0), stale);
    // An entry can also be set aside on a server that is out of memory.
    drive.limit_memory("1");
    assert_eq!(set_aside("v2", "v3", 1), VersionedResult::Done(()));
    drive.limit_memory("0");
    let progress = acquire(&drive, "v4");
    let positions: Vec<Position> = entries.iter().map(|entry| entry.position).collect();
    assert_eq!(progress.unreadable, positions);
    let counted = || (length(&drive, "pulse:aside"), drive.number("set_aside"));
    assert_eq!(counted(), (2, 2));
    // A folder that takes over does not set the entries aside again, and forgets their positions at the end of the
    // round.
    drive.take_over(1);
    assert_eq!(counted(), (2, 2));
    assert!(drive.data.is_folded());
    assert_eq!(drive.field("aside"), "");
    assert_eq!(drive.counted("GET /0"), (0, 0));
}

#[test]
fn the_newest_hundred_entries_that_were_set_aside_are_kept() {
    let drive = journal_of(1);
    acquire(&drive, "0");
    let entries = read(&drive, "0", 1);
    for version in 0..MAX_ASIDE + 5 {
        let (version, next) = (version.to_string(), (version + 1).to_string());
        let entry = Amendment::SetAside(&entries[0]);
        assert_eq!(
            amend(&drive, &version, &next, entry),
            VersionedResult::Done(())
        );
    }
    assert_eq!(length(&drive, "pulse:aside"), MAX_ASIDE);
}

#[test]
fn the_state_has_the_time_since_which_entries_wait() {
    let (drive, mut flushing, mut folding) = Drive::with_processes();
    let mut append = || {
        drive.send(&mut flushing, &contexts(1));
        drive.advance(10);
    };
    append();
    append();
    assert_eq!(drive.field("oldest"), NOW.to_string());
    drive.until(&mut folding, is_fold);
    append();
    drive.deliver(&folding);
    // `oldest` becomes the time of the round's newest entry, because the waiting entry is not older.
    assert_eq!(drive.field("oldest"), (NOW + 10).to_string());
    assert_eq!(drive.field("upto") + &drive.field("done"), "");
    drive.run_times(&mut folding, 2);
    assert_eq!(drive.field("oldest"), "");
}

#[test]
fn a_step_writes_more_records_than_one_command_holds() {
    let drive = Drive::start();
    // All names are in one partition, which a step never divides.
    let names = (0..).map(|number| format!("GET /{number}"));
    let names = names.filter(|name| partition(name) == 0);
    let names: Vec<String> = names.take(2 * RECORDS_AT_ONCE + 1).collect();
    drive.append(&names);
    drive.run_once(&mut drive.folder("folder"));
    assert!(drive.data.is_folded());
    let minute = format!("pulse:r1:60:{NOW}");
    let fields: usize = drive.data.query(cmd("HLEN").arg(minute));
    assert_eq!(fields, names.len() + 1, "including the record of <all>");
}

#[test]
fn each_instance_gets_the_same_answer_about_a_generation() {
    let drive = Drive::start();
    let first = hello(&drive);
    assert_eq!((first.age, first.is_fresh), (0, true));
    drive.advance(90);
    let second = hello(&drive);
    assert_eq!(second.id, first.id);
    assert_eq!((second.age, second.is_fresh), (90, true));
    // A generation is fresh only on a server without entries and contexts.
    for command in [
        "XADD pulse:journal * p x",
        "XADD pulse:orphaned * p x",
        "ZADD pulse:contexts 1 name",
        "ZADD pulse:timers 1 name",
    ] {
        drive.data.clear();
        let words: Vec<&str> = command.split(' ').collect();
        let () = drive.data.query(cmd(words[0]).arg(&words[1..]));
        let fresh = [hello(&drive).is_fresh, hello(&drive).is_fresh];
        assert_eq!(fresh, [false; 2], "{command}");
    }
}

#[test]
fn a_journal_without_its_state_is_set_aside_for_a_week() {
    let drive = journal_of(2);
    drive.delete("pulse:state");
    hello(&drive);
    let orphaned = (length(&drive, "pulse:orphaned"), drive.number("orphaned"));
    assert_eq!(orphaned, (2, 2));
    let left: i64 = drive.data.query(cmd("TTL").arg("pulse:orphaned"));
    assert!((WEEK - 60..=WEEK).contains(&left), "{left}");
}

/// An empty stream remembers its last id, which is beyond the first offsets of a new generation.
#[test]
fn an_empty_journal_without_its_state_begins_again() {
    let drive = journal_of(9);
    drive.run_once(&mut drive.folder("folder"));
    assert_eq!(drive.entries(), 0);
    drive.delete("pulse:state");
    drive.free_lease();
    drive.append(&contexts(1));
    // The stream has accepted the id of the call, as a new stream would.
    assert!(!has_warning(&drive));
    drive.run_once(&mut drive.folder("folder"));
    assert_eq!(drive.counted("GET /0"), (10, 10));
}

/// While the state has another name, the store acknowledges requests.
#[test]
fn after_the_state_is_back_each_request_is_counted_lost_or_set_aside() {
    let (drive, mut flushing, _) = Drive::with_processes();
    let rename = |from: &str, to: &str| {
        let () = drive.data.query(cmd("RENAME").arg(from).arg(to));
    };
    drive.send(&mut flushing, &contexts(50));
    drive.take_over(1);
    rename("pulse:state", "away");
    drive.send(&mut flushing, &contexts(1));
    drive.take_over(1);
    drive.send(&mut flushing, &contexts(1));
    assert_eq!(drive.entries(), 1, "the entry is not folded");
    rename("away", "pulse:state");
    drive.send(&mut flushing, &contexts(1));
    for _ in 0..2 {
        drive.take_over(1);
        let (hits, recorded) = drive.counted("GET /0");
        let lost = flushing.as_flusher().lost();
        assert_eq!((hits, recorded), (3 - lost, hits));
        assert_eq!(hits + lost + drive.number("set_aside"), 4, "of 4 requests");
    }
    assert!(drive.data.is_folded());
}
