//! Panics within requests: their locations and messages, if the application asks for them.
//!
//! The panic hook leaves the failure on the thread. The guards of the thread's requests take the failure when the
//! handler returns or unwinds.

use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::Once;

use super::active;
use tower_pulse_model::failure::{Failure, MAX_KIND};

thread_local! {
    /// The last panic within the requests that this thread is working on.
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Installs the hook, once per process. The previously installed hook runs after this one.
pub fn record_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if active::is_within_layer() {
                note(info);
            }
            before(info);
        }));
    });
}

/// Must not panic: a panic within the hook would abort the process.
fn note(info: &PanicHookInfo<'_>) {
    let location = info.location().map_or_else(String::new, |location| {
        format!("{}:{}", location.file(), location.line())
    });
    let failure = Failure::new(kind_of(&location));
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let failure = failure.with_message(text.unwrap_or_default());
    let _ = LAST.try_with(|last| last.replace(Some(failure)));
    active::mark_unsettled();
}

/// The kind of a panic at this location, such as `src/orders.rs:88`. A location that is too long is cut at its
/// beginning.
fn kind_of(location: &str) -> String {
    const PREFIX: &str = "panic at ";
    const CUT: &str = "…";
    let most = MAX_KIND - PREFIX.len();
    if location.len() <= most {
        return format!("{PREFIX}{location}");
    }
    let start = (location.len() + CUT.len() - most..).find(|at| location.is_char_boundary(*at));
    // There is always a boundary, at the latest the end of the text.
    let end = start.map_or("", |at| &location[at..]);
    format!("{PREFIX}{CUT}{end}")
}

/// The last panic within the requests that this thread is working on. The guard of the outermost request takes the
/// panic off the thread.
#[cold]
pub fn last_panic(is_outermost: bool) -> Option<Failure> {
    let last = |last: &RefCell<Option<Failure>>| match is_outermost {
        true => last.take(),
        false => last.borrow().clone(),
    };
    LAST.try_with(last).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_location_keeps_its_end() {
        assert_eq!(kind_of("src/orders.rs:88"), "panic at src/orders.rs:88");
        let longest = "x".repeat(MAX_KIND - "panic at ".len());
        assert_eq!(kind_of(&longest), format!("panic at {longest}"));
        let cut = kind_of(&format!("/home/{}/src/orders.rs:88", "é".repeat(60)));
        assert!(cut.starts_with("panic at …é"), "{cut}");
        assert!(cut.ends_with("é/src/orders.rs:88"), "{cut}");
        assert_eq!(cut.len(), MAX_KIND - 1, "no character is cut");
    }
}
