//! An instance waits until its call can be read, and folds the call if no other instance folds.

use super::{Behaviour, Call, Folding, MS, NOW, at, entry};
use crate::store::{AppendedCall, Readable};
use crate::task::lock;

fn call(offset: u64) -> AppendedCall {
    AppendedCall {
        generation: "generation".to_owned(),
        instance: "instance".to_owned(),
        seq: 1,
        position: at(offset),
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_waits_until_its_call_can_be_read_or_is_lost() {
    let folding = Folding::new(Behaviour::HeldByOther);
    for (last, is_readable) in [(Readable::Yes, true), (Readable::Lost, false)] {
        let mut answers = vec![last];
        answers.extend([Readable::NotYet; 7]);
        *lock(&folding.journal.readable) = answers;
        lock(&folding.journal.calls).clear();
        let readable = folding.folder.until_readable(&call(7)).await;
        assert_eq!(readable.ok(), Some(is_readable));
        let expected = [5, 10, 20, 40, 80, 100, 100].map(|millis| millis * MS);
        assert_eq!(folding.journal.gaps(&Call::Readable), expected);
        // Before each check, the instance tries to acquire the lease.
        assert_eq!(folding.journal.count(&Call::Acquire), 8);
    }
}

#[tokio::test]
async fn an_instance_that_waits_for_its_call_folds_it() {
    let folding = Folding::one_by_one(vec![entry(100, &["GET /"], NOW)]);
    let readable = async |position| {
        lock(&folding.journal.readable).push(Readable::Yes);
        let readable = folding.folder.until_readable(&call(position)).await;
        assert_eq!(readable.ok(), Some(true));
        folding.journal.count(&Call::Read)
    };
    assert_eq!(readable(100).await, 1);
    assert_eq!(lock(&folding.journal.progress).committed, at(100));
    assert_eq!(readable(100).await, 1, "the call is folded already");
    lock(&folding.journal.entries).push(entry(200, &["GET /"], NOW));
    assert_eq!(readable(200).await, 2);
}
