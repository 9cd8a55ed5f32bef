//! Each store returns the measures of requests: merged within a slice, over slices, and into coarser slices.

use tower_pulse_model::context::Kind;
use tower_pulse_model::measures::{Measure, Measures};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::tier::WIDTHS;

use crate::stores::fixture::{Fixture, MS, NOW, aggregate_of};

const MEASURES: [Measure; 4] = [
    Measure::PollTime,
    Measure::Waited,
    Measure::LongestPoll,
    Measure::Polls,
];

fn shown(measures: &Measures) -> [u64; 4] {
    MEASURES.map(|measure| measures.get(measure))
}

async fn by_slice(fixture: &Fixture, width: u32) -> Vec<[u64; 4]> {
    let records = fixture.records("GET /", width).await;
    let all = records.iter().map(|(_, sums)| shown(&sums.measures));
    all.collect()
}

pub async fn measures_are_merged_and_rolled_up(fixture: &mut Fixture) {
    for (second, measured) in [
        (NOW, [185, 40, 180, 3]),
        (NOW, [5, 0, 5, 1]),
        (NOW + 60, [16, 100, 9, 2]),
    ] {
        fixture.manual_clock.set_wall(second);
        let mut sums = aggregate_of(&[MS], Outcome::Success);
        for (measure, number) in MEASURES.into_iter().zip(measured) {
            sums.measures.add(measure, number);
        }
        let mut batch = fixture.batch(&[]);
        batch.add(&"GET /".into(), Kind::Http, second, &sums);
        fixture.merge_clean(batch).await;
    }
    let (first, second) = ([190, 40, 180, 4], [16, 100, 9, 2]);
    let both = [206, 140, 180, 6];
    assert_eq!(by_slice(fixture, 60).await, [first, second]);
    for width in WIDTHS.into_iter().filter(|width| *width > 60) {
        assert_eq!(by_slice(fixture, width).await, [both], "{width}");
    }
    let hour = fixture.context("GET /").await.hour.unwrap();
    assert_eq!(shown(&hour.aggregate.measures), both);
    // A request that measures nothing changes nothing; by now the minutes are rolled up.
    fixture.advance(3_600);
    fixture.hit("GET /", NOW + 3_660, MS).await;
    assert_eq!(by_slice(fixture, 60).await, [first, second, [0; 4]]);
    assert_eq!(by_slice(fixture, 3_600).await, [both, [0; 4]]);
    // The minutes are beyond their retention, and the half hours have all of them.
    fixture.advance(2 * 3_600);
    fixture.hit("GET /", NOW + 3 * 3_600, MS).await;
    assert_eq!(by_slice(fixture, 3_600).await[0], both);
}
