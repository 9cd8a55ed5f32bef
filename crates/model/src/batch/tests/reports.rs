use super::*;
use crate::minute_report::{MAX_PENDING_REPORTS, REPORTED_CONTEXT_COST};
use crate::tests::contexts;

fn large_report(minute: i64, count: u64) -> MinuteReport {
    let counts: Vec<_> = (0..count).map(|name| (name, count - name)).collect();
    report(minute, contexts(&counts))
}

fn minutes(batch: &Batch) -> Vec<i64> {
    let reports = batch.reports.iter();
    reports.map(|report| report.minute / 60).collect()
}

#[test]
fn the_newest_reports_are_kept() {
    let mut batch = Batch::default();
    for minute in (0..=MAX_PENDING_REPORTS as i64).rev() {
        batch.add_report(large_report(60 * minute, 1));
    }
    let newest: Vec<_> = (1..=MAX_PENDING_REPORTS as i64).collect();
    assert_eq!(minutes(&batch), newest);
    assert_eq!(batch.len(), MAX_PENDING_REPORTS);
    assert!(!batch.is_empty());
    let mut other = large_report(60, 1);
    other.instance = "b".into();
    batch.add_report(other);
    assert_eq!(batch.reports[0].minute, 60);
    assert_eq!(&*batch.reports[0].instance, "b");
}

#[test]
fn reports_are_split_between_contexts_and_the_busiest_are_sent_first() {
    let mut batch = Batch::default();
    batch.add_report(large_report(60, 100));
    batch.add_report(large_report(120, 10));
    let parts = parts_of(&batch, 50 * REPORTED_CONTEXT_COST).into_iter();
    let lens = parts.map(|part| {
        let contexts = part.reports.iter().map(|report| report.contexts.len());
        contexts.collect::<Vec<_>>()
    });
    assert!(lens.eq([vec![50], vec![50], vec![10]]));
    assert_eq!(Batch::default().split(1), Batch::default());
}

#[test]
fn the_oldest_reports_are_dropped_before_records_are_merged() {
    let mut whole = Batch::default();
    for minute in 0..10 {
        add_request(&mut whole, 60 * minute);
        whole.add_report(large_report(60 * minute, 20));
    }
    let bytes = whole.record_bytes();
    let reports = |surplus| {
        let mut batch = whole.clone();
        batch.compact(bytes - surplus);
        assert_eq!(batch.contexts, whole.contexts);
        assert!(batch.record_bytes() <= bytes - surplus);
        minutes(&batch)
    };
    let bytes_of_one = vec![large_report(0, 20)].bytes();
    assert_eq!(reports(0).len(), 10);
    assert_eq!(reports(1), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(reports(bytes_of_one).len(), 9);
    assert_eq!(reports(bytes_of_one + 1).len(), 8);
    assert!(reports(10 * bytes_of_one).is_empty());
}
