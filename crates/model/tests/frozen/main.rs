//! Checks that this version reads the bytes that the last version has written, and writes the same bytes: entries,
//! records, lists of requests, reports, profiles, marks and rankings.
//!
//! The bytes of a version are frozen when it is released:
//! `PULSE_FREEZE=1 cargo test -p tower-pulse-model --test frozen` writes the file of the version.
#![allow(missing_docs, reason = "tests")]

mod fixture;
mod values;

use std::fmt::Debug;

use tower_pulse_model::entry;
use tower_pulse_model::mark::StoredMark;
use tower_pulse_model::pack::{self, Packed};
use tower_pulse_model::slow_request::SlowRequests;

/// The version whose bytes were frozen last.
const LAST: &str = "0.1.0";

/// The steps before a change of the form of an entry, or of the values that a fold derives from it.
const ENTRY: &str = "instances of both versions share a journal and tables: raise ENTRY_VERSION (crates/model/src/entry.rs), \
    so that an older instance does not fold entries that it cannot read; read the frozen form as well; and store new \
    data in a section of the record with a new tag";
/// The steps before a change of a form without a version number.
const UNGUARDED: &str = "no version number guards this form, and an older instance reads it: add fields only at its end, \
    where an older version ignores them, and do not require them; for any other change, use another table";
/// Reads a value from bytes, and returns it as text.
type ReadForm = Box<dyn Fn(&[u8]) -> String>;

struct Form {
    name: &'static str,
    written: Vec<u8>,
    read: ReadForm,
    value: String,
    before_a_change: &'static str,
}

fn form<T: Debug>(
    name: &'static str,
    value: &T,
    written: Vec<u8>,
    read: impl Fn(&[u8]) -> Option<T> + 'static,
    before_a_change: &'static str,
) -> Form {
    Form {
        name,
        written,
        read: Box::new(move |bytes| format!("{:#?}", read(bytes))),
        value: format!("{:#?}", Some(value)),
        before_a_change,
    }
}

fn packed<T: Packed + Debug + 'static>(name: &'static str, value: &T) -> Form {
    form(name, value, pack::pack(value), pack::unpack, UNGUARDED)
}

fn forms() -> Vec<Form> {
    let batch = values::batch();
    let packed_batch = entry::pack(&batch);
    let mut forms = vec![form("entry", &batch, packed_batch, values::unpacked, ENTRY)];
    for (name, rolled_until) in [
        ("record of a minute", None),
        ("record of half an hour", Some(1_700_000_040)),
    ] {
        let record = values::record(rolled_until);
        let written = pack::record(&record);
        forms.push(form(name, &record, written, pack::read_record, ENTRY));
    }
    let sums = values::aggregate();
    let (name, written) = ("minute of a version", pack::aggregate(&sums));
    forms.push(form(name, &sums, written, pack::read_aggregate, ENTRY));
    for (name, kind) in values::LISTS {
        let list = values::slow_requests(kind);
        let read = move |bytes: &[u8]| SlowRequests::unpack(bytes, kind);
        forms.push(form(name, &list, list.pack(), read, ENTRY));
    }
    let minute = values::instance_minute();
    let (name, written) = ("minute of an instance", pack::pack(&minute));
    forms.push(form(name, &minute, written, pack::unpack, ENTRY));
    for (name, is_removed) in [("mark", false), ("mark that was removed", true)] {
        let mark = values::stored_mark(is_removed);
        let id = mark.mark.id.clone();
        let read = move |bytes: &[u8]| StoredMark::unpack(id.as_bytes(), bytes);
        forms.push(form(name, &mark, pack::pack(&mark), read, UNGUARDED));
    }
    forms.push(packed("profile", &values::profile()));
    forms.push(packed("recorded hours", &values::recorded_hours()));
    forms.push(packed("ranking", &values::ranking()));
    forms.push(packed("configurations of a ranking", &values::specs()));
    forms
}

#[test]
fn the_values_of_the_last_version_are_read() {
    let frozen = fixture::read(LAST);
    let forms = forms();
    for form in &forms {
        let name = form.name;
        let bytes = frozen.get(name);
        let bytes = bytes.unwrap_or_else(|| panic!("{LAST} has no {name}: freeze it"));
        let read = (form.read)(bytes);
        assert_eq!(read, form.value, "{LAST} has written another {name}");
    }
    assert_eq!(frozen.len(), forms.len(), "a frozen form has no test");
}

#[test]
fn this_version_writes_the_same_bytes_as_the_last_version() {
    if std::env::var_os("PULSE_FREEZE").is_some() {
        let packed = forms().into_iter().map(|form| (form.name, form.written));
        fixture::write(env!("CARGO_PKG_VERSION"), &packed.collect::<Vec<_>>());
        return;
    }
    let frozen = fixture::read(LAST);
    for form in forms() {
        let (name, before, now) = (form.name, &frozen[form.name], &form.written);
        let same = before.iter().zip(now).take_while(|(a, b)| a == b).count();
        let sizes = format!("{} bytes before, {} now", before.len(), now.len());
        assert!(
            before == now,
            "the form of \"{name}\" differs from that of {LAST}, from byte {same} on ({sizes}): {}",
            form.before_a_change
        );
    }
}
