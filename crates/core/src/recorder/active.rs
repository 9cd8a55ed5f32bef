//! The request that this thread is working on. The layer marks the thread, so that a second layer of the same `Pulse`
//! and the timers within the request find the request.
//!
//! Marking the thread costs two exchanges of one number per poll. The first timer of a request creates a [`Scope`],
//! which the thread holds until the poll ends. The guard of the request then takes the scope from the thread, and gives
//! it back at the next poll.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::RecordingState;
use super::scope::Scope;

thread_local! {
    /// The mark of this thread. The lower half is the id of the recorder whose request the thread is working on. The
    /// upper half is the id of the recorder of the next outer layer, with the bit [`UNSETTLED`].
    static ACTIVE: Cell<u64> = const { Cell::new(0) };
    /// The scopes of the requests that this thread is working on, and of the futures that
    /// [`Within`](super::Within) wraps, outermost first.
    static SCOPES: RefCell<Vec<ActiveScope>> = const { RefCell::new(Vec::new()) };
}

/// The bit of the mark that an outer layer checks: if set, the layer must take a scope, or a context from an inner
/// layer, off this thread. An inner layer, a timer or a [`Within`](super::Within) sets the bit. The id of a recorder
/// has 31 bits, so it never sets this bit.
pub const UNSETTLED: u64 = 1 << 63;

/// A scope that timers of its recorder find.
struct ActiveScope {
    recorder: u32,
    /// The mark when the scope was entered. `None` if the scope was created within a layer of another recorder, whose
    /// mark hides the depth of the scope's layer.
    mark: Option<u64>,
    scope: Arc<Scope>,
}

/// Marks this thread as working on a request of a recorder. Returns the previous mark, for [`leave`]. The id 0 does not
/// change the mark.
#[inline(always)]
pub fn enter(id: u32) -> u64 {
    let id = u64::from(id);
    let mark = |active: &Cell<u64>| {
        let before = active.get();
        active.set(if id == 0 { before } else { before << 32 | id });
        before
    };
    ACTIVE.try_with(mark).unwrap_or(0)
}

/// Restores the mark that [`enter`] has returned. Returns whether [`UNSETTLED`] was set.
#[inline(always)]
pub fn leave(before: u64) -> bool {
    let left = ACTIVE.try_with(|active| active.replace(before));
    left.is_ok_and(|left| left & UNSETTLED != 0)
}

/// Whether this thread is working on a request of any recorder.
#[inline(always)]
pub fn is_within_any() -> bool {
    ACTIVE.try_with(Cell::get).unwrap_or(0) != 0
}

/// Whether this thread is working on a request of a layer, and not only within a [`Within`](super::Within).
pub fn is_within_layer() -> bool {
    ACTIVE.try_with(Cell::get).unwrap_or(0) & !UNSETTLED != 0
}

/// Whether this thread is working on a request of this recorder.
pub fn is_within(id: u32) -> bool {
    let active = ACTIVE.try_with(Cell::get).unwrap_or(0);
    active != 0 && (active as u32 == id || outer(active) == id)
}

/// The id of the recorder around the innermost one.
#[inline(always)]
fn outer(mark: u64) -> u32 {
    ((mark & !UNSETTLED) >> 32) as u32
}

/// Sets [`UNSETTLED`] in the mark of this thread.
pub fn mark_unsettled() {
    let _ = ACTIVE.try_with(|active| active.set(active.get() | UNSETTLED));
}

/// Whether a scope is left on this thread.
pub fn has_scopes() -> bool {
    let is_empty = SCOPES.try_with(|scopes| scopes.borrow().is_empty());
    is_empty.is_ok_and(|is_empty| !is_empty)
}

/// Gives the scope of a request back to the thread, after [`enter`].
#[cold]
#[inline(never)]
pub fn resume(id: u32, scope: &Arc<Scope>) {
    let mark = ACTIVE.try_with(Cell::get).unwrap_or(0) & !UNSETTLED;
    push(id, Some(mark), scope.clone());
}

/// Takes the scope of a request from the thread, after [`leave`].
pub fn suspend(id: u32, before: u64) -> Option<Arc<Scope>> {
    if id == 0 {
        return None;
    }
    let mark = before << 32 | u64::from(id);
    let is_mine = |active: &ActiveScope| {
        active.recorder == id && active.mark.is_none_or(|entered| entered == mark)
    };
    remove(is_mine)
}

/// The scope of the request of this recorder that this thread is working on, created if it does not exist. `None`
/// outside of requests.
pub fn scope(recording: &RecordingState) -> Option<Arc<Scope>> {
    let active = ACTIVE.try_with(Cell::get).unwrap_or(0);
    if active == 0 {
        return None;
    }
    let (id, mark) = (recording.id(), active & !UNSETTLED);
    let (is_innermost, is_outer) = (mark as u32 == id, outer(mark) == id);
    let is_entered = |entered: Option<u64>| match entered {
        None => true,
        Some(entered) if is_innermost => entered == mark,
        Some(entered) if is_outer => entered as u32 == id || outer(entered) == id,
        Some(_) => true,
    };
    let innermost = |scopes: &RefCell<Vec<ActiveScope>>| {
        let scopes = scopes.borrow();
        let mut of_recorder = scopes.iter().rev().filter(|scope| scope.recorder == id);
        let last = of_recorder.next().filter(|last| is_entered(last.mark));
        last.map(|last| last.scope.clone())
    };
    let existing = SCOPES.try_with(innermost).ok()?;
    if existing.is_some() || !(is_innermost || is_outer) {
        return existing;
    }
    // A run that is known only at its end may have begun before this moment.
    let scope = Arc::new(Scope::new(recording.started()));
    push(id, is_innermost.then_some(mark), scope.clone());
    Some(scope)
}

fn push(recorder: u32, mark: Option<u64>, scope: Arc<Scope>) {
    let active = ActiveScope {
        recorder,
        mark,
        scope,
    };
    let _ = SCOPES.try_with(|scopes| scopes.borrow_mut().push(active));
    mark_unsettled();
}

/// Removes the innermost scope that `matches`.
fn remove(matches: impl Fn(&ActiveScope) -> bool) -> Option<Arc<Scope>> {
    let innermost = |scopes: &RefCell<Vec<ActiveScope>>| {
        let mut scopes = scopes.borrow_mut();
        let index = scopes.iter().rposition(matches)?;
        Some(scopes.remove(index).scope)
    };
    SCOPES.try_with(innermost).ok().flatten()
}

/// Runs a function whose timers count under a scope.
pub fn within<T>(recorder: u32, scope: &Arc<Scope>, run: impl FnOnce() -> T) -> T {
    let _entered = Entered::new(recorder, scope);
    run()
}

/// Lets timers on this thread find a scope, until this value is dropped.
pub(super) struct Entered<'a> {
    scope: &'a Arc<Scope>,
    before: u64,
}

impl<'a> Entered<'a> {
    pub(super) fn new(recorder: u32, scope: &'a Arc<Scope>) -> Self {
        let before = ACTIVE.try_with(Cell::get).unwrap_or(0);
        push(recorder, Some(before & !UNSETTLED), scope.clone());
        Self { scope, before }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        drop(remove(|active| Arc::ptr_eq(&active.scope, self.scope)));
        if self.before == 0 {
            // Outside of requests, no layer resets the mark.
            let _ = ACTIVE.try_with(|active| active.set(0));
        }
    }
}
