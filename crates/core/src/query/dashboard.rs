//! The answers whose types only the dashboard uses. Applications get these answers as JSON.

pub use super::answers::changes::WatchedRow;
pub use super::answers::counters::{CounterSamples, CounterSamplesQuery};
pub use super::answers::deploy::{Deploy, DeployQuery, DeployRow};
pub use super::answers::fix_first::{FixFirst, FixFirstQuery, FixReason, FixRow};
pub use super::answers::health::{FullHealth, HealthStatus, HistoryHealth};
pub use super::answers::heat_map::{HeatMap, HeatMapQuery, HeatSlice};
pub use super::answers::instance::{
    Instance, InstancePath, InstancePoint, InstanceQuery, MachinePoint,
};
pub use super::answers::instance_verdict::{InstanceVerdict, Spread};
pub use super::answers::instances::{InstanceRow, Instances, InstancesQuery};
pub use super::answers::overview::{HourTotal, Overview, OverviewQuery};
pub use super::answers::path::ContextHour;
pub use super::answers::path_targets::{Burn, BurningPath, TargetBudget, TargetBurn};
pub use super::answers::paths::{Repeated, RowStatus};
pub use super::answers::profile::{HourOfWeek, Profile, ProfileQuery};
#[cfg(feature = "rankings")]
pub use super::answers::rankings::{RankingHead, RankingRow, Rankings, RankingsQuery};
pub use super::answers::row_series::{PointValue, RowMetric, SeriesSpan};
#[cfg(feature = "row-cache")]
pub use super::answers::rows::Rows;
pub use super::answers::slow_requests::BothHours;
pub use super::answers::slowest::{SlowContext, Slowest, SlowestQuery};
pub use super::answers::timers::{QueueWait, RequestTimer, RequestTimers, TimerPath};
pub use super::answers::worst_requests::WorstRequests;
