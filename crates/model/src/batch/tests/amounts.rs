use super::*;
use crate::amounts::Amounts;
use crate::tests::{amounts, spec};

const NOW: i64 = 1_700_000_040;

#[test]
fn signs_do_not_matter_and_additions_that_cancel_each_other_count() {
    let mut batch = Batch::default();
    assert!(batch.amounts().is_zero());
    for (second, n) in [(0, 5), (1, -5), (400_000, 7)] {
        batch.count(&"stock".into(), NOW + second, n);
    }
    // The finest slices retain only some of these additions, so the amount is computed from a coarser precision, which
    // has them all.
    for second in 1..=200 {
        batch.count(&"sold".into(), NOW + second, 2);
    }
    assert_eq!(batch.amounts(), amounts(0, 17 + 400, 0));
    let mut posts = RankingDelta::new(spec(60, 3, 2));
    posts.remove(&"a".into());
    for (id, second, n) in [("a", 0, 3), ("b", 0, 4), ("b", 60, -4), ("c", 0, 1)] {
        posts.add(&id.into(), NOW + second, n);
    }
    // There is no room for `c`, which added 1.
    posts.limit();
    let mut ranked = Batch::default();
    ranked.add_ranking("posts".into(), posts);
    assert_eq!(ranked.amounts(), amounts(0, 1 + 3 + 8 + 1, 0));
}

#[test]
fn each_request_counts_once() {
    let samples = [(0, 0, false), (1, 0, true), (1, 1, false)];
    let samples = samples.map(|(name, second, error)| (name, NOW + second, 5, error));
    let batch = batch_of(&samples);
    let counted = batch.amounts();
    // Each request adds 2 to a counter as well.
    assert_eq!((counted.samples, counted.additions), (3, 6));
    assert_eq!(batch.amounts_beside_samples().samples, 0);
}

#[test]
fn the_amounts_of_the_parts_add_up_to_those_of_the_batch() {
    let mut batch = Batch::default();
    for n in 0..100 {
        batch.count(&n.to_string().into(), NOW, n);
    }
    batch.add_report(report(NOW, Vec::new()));
    let mut sum = Amounts::default();
    let parts = parts_of(&batch, 24);
    parts.iter().for_each(|part| sum += part.amounts());
    assert_eq!([sum, batch.amounts()], [amounts(0, 4_950, 1); 2]);
}
