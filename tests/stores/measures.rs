//! What requests measure beside their times comes back from each store: merged within a slice, over slices, and into
//! coarser ones.

use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::measures::{Measure, Measures};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::tier::WIDTHS;

use crate::fixture::{Fixture, MS, NOW, aggregate_of};
use crate::rig::reads::StoreReads;

/// A request that was polled for so many milliseconds each time, and waited for so many between its polls.
pub fn polled(polls: &[u64], waited: u64) -> Aggregate {
    let computed: u64 = polls.iter().sum();
    let longest = polls.iter().copied().max().unwrap_or(0);
    let mut aggregate = aggregate_of(&[(computed + waited) * MS], Outcome::Success);
    for (measure, number) in [
        (Measure::PollTime, computed * MS),
        (Measure::Waited, waited * MS),
        (Measure::LongestPoll, longest * MS),
        (Measure::Polls, polls.len() as u64),
    ] {
        aggregate.measures.add(measure, number);
    }
    aggregate
}

/// Milliseconds of computing, of waiting and of the longest poll, and the number of polls.
fn shown(measures: &Measures) -> [u64; 4] {
    let millis = |measure| measures.get(measure) / MS;
    [
        millis(Measure::PollTime),
        millis(Measure::Waited),
        millis(Measure::LongestPoll),
        measures.get(Measure::Polls),
    ]
}

async fn by_slice(fixture: &Fixture, width: u32) -> Vec<[u64; 4]> {
    let now = fixture.clock.now_seconds();
    let records = fixture.store.records_of("GET /", width, now).await;
    let records = records.unwrap();
    let all = records.iter().map(|(_, sums)| shown(&sums.measures));
    all.collect()
}

pub async fn measures_are_merged_and_rolled_up(fixture: &mut Fixture) {
    let send = async |fixture: &mut Fixture, second, request: &Aggregate| {
        let mut batch = Batch::new(fixture.precisions.clone());
        batch.add(&"GET /".into(), Kind::Http, second, request);
        fixture.merge_clean(batch).await;
    };
    send(fixture, NOW, &polled(&[3, 180, 2], 40)).await;
    send(fixture, NOW, &polled(&[5], 0)).await;
    fixture.advance(60);
    send(fixture, NOW + 60, &polled(&[7, 9], 100)).await;
    let (first, second) = ([190, 40, 180, 4], [16, 100, 9, 2]);
    let both = [206, 140, 180, 6];
    assert_eq!(by_slice(fixture, 60).await, [first, second]);
    for width in WIDTHS.into_iter().filter(|width| *width > 60) {
        assert_eq!(by_slice(fixture, width).await, [both], "{width}");
    }
    let hour = fixture.context("GET /").await.hour.unwrap();
    assert_eq!(shown(&hour.aggregate.measures), both);
    // What measures nothing, as what was recorded by hand, changes nothing; by now the minutes are rolled up.
    fixture.advance(3_600);
    fixture.hit("GET /", NOW + 3_660, MS).await;
    assert_eq!(by_slice(fixture, 60).await, [first, second, [0; 4]]);
    assert_eq!(by_slice(fixture, 3_600).await, [both, [0; 4]]);
    let (mut days, mut most) = ([0; 4], 0);
    for day in by_slice(fixture, 86_400).await {
        (0..4).for_each(|at| days[at] += day[at]);
        most = most.max(day[2]);
    }
    assert_eq!((days[0], days[1], most, days[3]), (206, 140, 180, 6));
    // The minutes are beyond their retention, and the half hours have all of them.
    fixture.advance(2 * 3_600);
    fixture.hit("GET /", NOW + 3 * 3_600, MS).await;
    assert_eq!(by_slice(fixture, 3_600).await[0], both);
}
