//! Counts the allocations of one thread during a measurement. At other times, each allocation costs one load and one
//! branch more than with the system's allocator. This affects all rows equally.
#![allow(unsafe_code)] // A `GlobalAlloc` cannot be written without unsafe code.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

#[inline]
fn count(allocations: u64, bytes: i64) {
    if IS_COUNTING.load(Ordering::Relaxed) {
        let _ = COUNT.try_with(|total| total.set(total.get() + allocations));
        let _ = BYTES.try_with(|total| total.set(total.get() + bytes));
    }
}

/// Converts without loss, because no allocation is larger than `isize::MAX`.
#[inline]
fn signed(size: usize) -> i64 {
    size as i64
}

// SAFETY: each call goes to the system's allocator with unchanged arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, signed(size) - signed(layout.size()));
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -signed(layout.size()));
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The number of allocations, including growth, that this thread makes while `work` runs.
pub(crate) fn counted(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    IS_COUNTING.store(true, Ordering::Relaxed);
    work();
    IS_COUNTING.store(false, Ordering::Relaxed);
    COUNT.get() - before
}

/// The number of bytes that `work` allocates on this thread and does not free.
pub(crate) fn retained_bytes(work: impl FnOnce()) -> i64 {
    let before = BYTES.get();
    counted(work);
    BYTES.get() - before
}
