//! For tests: parts of a store that a test does not use.

use std::sync::LazyLock;

use super::journal::Journal;
use super::memory::MemoryStore;
use crate::clock::Clock;

/// The journal of a store that nobody folds.
pub fn unused_journal() -> &'static dyn Journal {
    static JOURNAL: LazyLock<MemoryStore> =
        LazyLock::new(|| MemoryStore::new(Default::default(), Clock::system()));
    &*JOURNAL
}

/// Makes a store that is never queried: [`Query`](crate::store::Query) panics.
#[macro_export]
macro_rules! no_queries {
    ($store:ty) => {
        impl $crate::store::Query for $store {
            fn tables(&self) -> &dyn $crate::store::table_reads::TableReader {
                unreachable!("this store is never queried")
            }

            fn fleet(
                &self,
                _: i64,
            ) -> $crate::store::StoreFuture<'_, $crate::store::FleetSnapshot> {
                unreachable!("this store is never queried")
            }

            fn counters<'a>(
                &'a self,
                _: &'a $crate::store::CounterQuery,
            ) -> $crate::store::StoreFuture<'a, Vec<$crate::store::CounterSeries>> {
                unreachable!("this store is never queried")
            }

            fn counter_names<'a>(
                &'a self,
                _: &'a [u32],
            ) -> $crate::store::StoreFuture<'a, Vec<String>> {
                unreachable!("this store is never queried")
            }

            fn slowest<'a>(
                &'a self,
                _: &'a $crate::store::SlowestQuery,
            ) -> $crate::store::StoreFuture<'a, Vec<$crate::store::RankedContext>> {
                unreachable!("this store is never queried")
            }
        }
    };
}

pub use no_queries;

/// Makes a store that is never looked after: [`Upkeep`](crate::store::Upkeep) panics.
#[macro_export]
macro_rules! no_upkeep {
    ($store:ty) => {
        impl $crate::store::Upkeep for $store {
            fn status(&self, _: i64) -> $crate::store::StoreFuture<'_, $crate::store::StoreStatus> {
                unreachable!("this store is never looked after")
            }

            fn heartbeat<'a>(
                &'a self,
                _: &'a $crate::store::Heartbeat,
            ) -> $crate::store::StoreFuture<'a, ($crate::store::Fleet, $crate::store::StoreStatus)>
            {
                unreachable!("this store is never looked after")
            }

            fn deregister<'a>(&'a self, _: &'a str) -> $crate::store::StoreFuture<'a, ()> {
                unreachable!("this store is never looked after")
            }

            fn clean<'a>(
                &'a self,
                _: &'a $crate::store::Pass,
            ) -> $crate::store::StoreFuture<'a, Option<$crate::store::Cleaned>> {
                unreachable!("this store is never looked after")
            }
        }
    };
}

pub use no_upkeep;
