//! The request that this thread is working on. The layer notes the request's recorder on the thread. A second layer of
//! the same `Pulse` and the timers within the request then find the request.
//!
//! This note costs two exchanges of one number per poll. The first timer of a request creates a [`Scope`], which the
//! thread holds until the poll ends. The guard of the request then takes the scope from the thread, and gives it back
//! at the next poll.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::RecordingState;
use super::scope::Scope;

thread_local! {
    /// The lower half is the id of the recorder whose request this thread is working on. The upper half is the id of
    /// the recorder of the next outer layer, with the bit [`UNSETTLED`].
    static ACTIVE: Cell<u64> = const { Cell::new(0) };
    /// The scopes of the requests that this thread is working on, and of the futures that
    /// [`Within`](super::Within) wraps, outermost first.
    static SCOPES: RefCell<Vec<ActiveScope>> = const { RefCell::new(Vec::new()) };
}

/// The bit of `ACTIVE` that a layer checks after each poll: if set, the layer must take a scope, a panic, or an inner
/// layer's context from this thread. An inner layer, a timer, a panic or a [`Within`](super::Within) sets the bit. The
/// ids of recorders have 31 bits, so no id contains this bit.
pub const UNSETTLED: u64 = 1 << 63;

/// A scope that timers of its recorder find.
struct ActiveScope {
    recorder_id: u32,
    /// `ACTIVE` when the scope was entered, without [`UNSETTLED`]. `None` if the scope was created within a layer of
    /// another recorder: `ACTIVE` has room for two ids, so the value in the scope's own layer is not known here.
    recorders: Option<u64>,
    scope: Arc<Scope>,
}

/// Notes that this thread works on a request of a recorder. Returns the previous `ACTIVE`, for [`leave`]. The id 0 does
/// not change `ACTIVE`.
#[inline(always)]
pub fn enter(id: u32) -> u64 {
    let id = u64::from(id);
    let exchange = |active: &Cell<u64>| {
        let before = active.get();
        active.set(if id == 0 { before } else { before << 32 | id });
        before
    };
    ACTIVE.try_with(exchange).unwrap_or(0)
}

/// Restores the value that [`enter`] has returned. Returns whether [`UNSETTLED`] was set.
#[inline(always)]
pub fn leave(before: u64) -> bool {
    let left = ACTIVE.try_with(|active| active.replace(before));
    left.is_ok_and(|left| left & UNSETTLED != 0)
}

/// Whether this thread is within a layer or a [`Within`](super::Within).
#[inline(always)]
pub fn is_within_any() -> bool {
    ACTIVE.try_with(Cell::get).unwrap_or(0) != 0
}

/// Whether this thread is within a layer.
pub fn is_within_layer() -> bool {
    ACTIVE.try_with(Cell::get).unwrap_or(0) & !UNSETTLED != 0
}

/// Whether `id` is one of the two innermost recorders at work on this thread.
pub fn is_within(id: u32) -> bool {
    let active = ACTIVE.try_with(Cell::get).unwrap_or(0);
    active != 0 && (active as u32 == id || outer(active) == id)
}

/// The id of the recorder around the innermost one.
#[inline(always)]
fn outer(active: u64) -> u32 {
    ((active & !UNSETTLED) >> 32) as u32
}

/// Sets [`UNSETTLED`] on this thread.
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
    let recorders = ACTIVE.try_with(Cell::get).unwrap_or(0) & !UNSETTLED;
    push(id, Some(recorders), scope.clone());
}

/// Takes the scope of a request from the thread, after [`leave`].
pub fn suspend(id: u32, before: u64) -> Option<Arc<Scope>> {
    if id == 0 {
        return None;
    }
    let recorders = before << 32 | u64::from(id);
    let is_mine = |active: &ActiveScope| {
        active.recorder_id == id && active.recorders.is_none_or(|entered| entered == recorders)
    };
    remove(is_mine)
}

/// The scope of the request of this recorder on this thread, created if it is missing. `None` outside of requests.
pub fn scope(recording: &RecordingState) -> Option<Arc<Scope>> {
    let active = ACTIVE.try_with(Cell::get).unwrap_or(0);
    if active == 0 {
        return None;
    }
    let (id, recorders) = (recording.id(), active & !UNSETTLED);
    let (is_innermost, is_outer) = (recorders as u32 == id, outer(recorders) == id);
    let is_entered = |entered: Option<u64>| match entered {
        None => true,
        Some(entered) if is_innermost => entered == recorders,
        Some(entered) if is_outer => entered as u32 == id || outer(entered) == id,
        Some(_) => true,
    };
    let innermost = |scopes: &RefCell<Vec<ActiveScope>>| {
        let scopes = scopes.borrow();
        let mut of_recorder = scopes.iter().rev().filter(|scope| scope.recorder_id == id);
        let last = of_recorder.next().filter(|last| is_entered(last.recorders));
        last.map(|last| last.scope.clone())
    };
    let existing = SCOPES.try_with(innermost).ok()?;
    if existing.is_some() || !(is_innermost || is_outer) {
        return existing;
    }
    // A timer that is known only at its end may have begun before now, but not before the recorder.
    let scope = Arc::new(Scope::new(recording.started()));
    push(id, is_innermost.then_some(recorders), scope.clone());
    Some(scope)
}

fn push(recorder_id: u32, recorders: Option<u64>, scope: Arc<Scope>) {
    let active = ActiveScope {
        recorder_id,
        recorders,
        scope,
    };
    let _ = SCOPES.try_with(|scopes| scopes.borrow_mut().push(active));
    mark_unsettled();
}

fn remove(matches: impl Fn(&ActiveScope) -> bool) -> Option<Arc<Scope>> {
    let innermost = |scopes: &RefCell<Vec<ActiveScope>>| {
        let mut scopes = scopes.borrow_mut();
        let index = scopes.iter().rposition(matches)?;
        Some(scopes.remove(index).scope)
    };
    SCOPES.try_with(innermost).ok().flatten()
}

/// Runs a function whose timers count under a scope.
pub fn within<T>(recorder_id: u32, scope: &Arc<Scope>, run: impl FnOnce() -> T) -> T {
    let _entered = Entered::new(recorder_id, scope);
    run()
}

/// Lets timers on this thread find a scope, until this value is dropped.
pub(super) struct Entered<'a> {
    scope: &'a Arc<Scope>,
    before: u64,
}

impl<'a> Entered<'a> {
    pub(super) fn new(recorder_id: u32, scope: &'a Arc<Scope>) -> Self {
        let before = ACTIVE.try_with(Cell::get).unwrap_or(0);
        push(recorder_id, Some(before & !UNSETTLED), scope.clone());
        Self { scope, before }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        drop(remove(|active| Arc::ptr_eq(&active.scope, self.scope)));
        if self.before == 0 {
            // A layer would restore `ACTIVE`, but this thread is within no layer.
            let _ = ACTIVE.try_with(|active| active.set(0));
        }
    }
}
