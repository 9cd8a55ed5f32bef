//! How many bytes the answers take that are held to be served again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::instance_minutes::InstanceSums;
use super::windows::sums::WindowSums;
use crate::store::CounterSeries;
use tower_pulse_detect::side_by_side::Versions;
use tower_pulse_model::profile::{ProfileHour, WEEK_HOURS};
use tower_pulse_model::records::SliceSums;
use tower_pulse_model::slow_request::SlowRequests;

/// Bytes of the texts of an item in a list.
const PER_TEXT: usize = 200;

/// Bytes of a profile.
pub(super) const PROFILE: usize = WEEK_HOURS * size_of::<ProfileHour>();

/// A bound of the bytes of held answers, and how much of it is taken.
#[derive(Debug)]
pub(super) struct AnswerBytes {
    most: usize,
    held: AtomicUsize,
}

/// Bytes that an answer takes until it is dropped.
#[derive(Debug)]
pub(super) struct HeldBytes {
    of: Arc<AnswerBytes>,
    bytes: usize,
}

impl AnswerBytes {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            held: AtomicUsize::new(0),
        })
    }

    /// Takes some bytes; `None` if they are not left.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Option<HeldBytes> {
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.most);
        let is_taken = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok();
        is_taken.then(|| HeldBytes {
            of: self.clone(),
            bytes,
        })
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes of the items of a list, each with some texts.
pub(super) fn list<T>(answer: &[T]) -> usize {
    answer.len() * (size_of::<T>() + PER_TEXT)
}

/// Bytes of the slow and failed requests of some contexts.
pub(super) fn slow_requests(answer: &[SlowRequests]) -> usize {
    let lists = answer.iter();
    // With the names of the context and the instance.
    let lists = lists.map(|list| list.bytes() + list.len() * PER_TEXT);
    lists.sum::<usize>() + size_of_val(answer)
}

/// Bytes of what contexts measured in a window.
pub(super) fn window(answer: &Arc<WindowSums>) -> usize {
    answer.bytes()
}

/// Bytes of the records of a context.
pub(super) fn records(answer: &Arc<Vec<SliceSums>>) -> usize {
    answer.iter().map(|slice| slice.sums.bytes()).sum()
}

/// Bytes of what instances did.
pub(super) fn instances(answer: &Arc<Vec<InstanceSums>>) -> usize {
    let sums = answer.iter().map(|instance| instance.sums.bytes());
    sums.sum::<usize>() + list(answer)
}

/// Bytes of counters.
pub(super) fn counters(answer: &[CounterSeries]) -> usize {
    let slices = answer.iter().map(|counter| size_of_val(&*counter.slices));
    slices.sum::<usize>() + list(answer)
}

/// Bytes of what versions did side by side.
pub(super) fn versions(answer: &Arc<Versions>) -> usize {
    answer.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_bound_is_taken() {
        let bytes = AnswerBytes::new(100);
        let first = bytes.take(60).expect("there is room");
        assert!(bytes.take(41).is_none());
        let second = bytes.take(40).expect("there is room");
        drop(first);
        assert!(bytes.take(61).is_none() && bytes.take(60).is_some());
        drop(second);
        assert!(bytes.take(usize::MAX).is_none() && bytes.take(100).is_some());
    }
}
