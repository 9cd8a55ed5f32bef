//! The lease of a folder: how often it is acquired and released.

use super::{Behaviour, Call, Folding};
use crate::fold::Leader;

#[tokio::test]
async fn a_folder_gives_up_when_it_loses_the_lease_three_times() {
    let folding = Folding::new(Behaviour::Stolen);
    assert_eq!(folding.fold().await, Leader::Other);
    assert_eq!(folding.journal.count(&Call::Acquire), 3);
    assert!(!folding.folder.status().is_leader);
}

#[tokio::test]
async fn the_lease_is_released_once() {
    let folding = Folding::new(Behaviour::Free);
    assert!(folding.folder.release().await.is_ok());
    assert_eq!(folding.journal.count(&Call::Release), 0);
    assert_eq!(folding.fold().await, Leader::This);
    for _ in 0..2 {
        folding.folder.release().await.expect("the journal answers");
        assert_eq!(folding.journal.count(&Call::Release), 1);
    }
}
