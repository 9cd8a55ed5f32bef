//! Targets for the duration of all requests, and of the requests of single contexts.

use std::collections::HashSet;
use std::time::Duration;

use super::Builder;
use super::validate::measurable;
use tower_pulse_core::error::BuildError;
use tower_pulse_core::targets::PathTarget;
use tower_pulse_model::context::{ALL, MAX_NAME, escape_hidden};

const MAX_PATH_TARGETS: usize = 100;

impl<Of> Builder<Of> {
    /// The duration in which requests should end: 1 µs to 1 h, none by default. With a target, `api/overview` and
    /// `api/paths` have `below_target`, the share of the requests that succeeded within the target, from 0 to 1.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// use std::time::Duration;
    ///
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .target(Duration::from_millis(250))
    ///     .build()?;
    /// # pulse.shutdown().await.unwrap();
    /// # Ok(()) }
    /// ```
    ///
    /// As in Apdex, an error never counts as below the target, even if it was fast. A 4xx that is no error does not
    /// count at all, because the service is not to blame. A request that was cut off (cancelled, or with an aborted
    /// body) does not count either, because its full duration is unknown. The share is the number of successes below
    /// the target, divided by the number of all successes and errors.
    ///
    /// The share is read from histograms. A request may count wrongly if its duration is within 2.2 % of the target; in
    /// windows of six-hour slices, such as `7d`, within 9 %. The field `error` of the answer has this bound, with one
    /// exception: if the durations of a context's failures or cut-off requests vary widely, the bound is 9 % in each
    /// window. The target is not stored, so a new target applies to the past too.
    pub fn target(mut self, target: Duration) -> Self {
        self.options.targets.all = Some(target);
        self
    }

    /// A target for the requests of one context, instead of [`target`](Self::target). `share` is the share of requests
    /// that should be good, between 0 and 1, both excluded. A good request is answered within `duration`, 1 µs to 1 h,
    /// and is no error. `context` is the name that the dashboard shows. At most 100 contexts can have a target of their
    /// own, each context only one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// use std::time::Duration;
    ///
    /// let checkout = Duration::from_millis(400);
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .target_for("POST /checkout", checkout, 0.995)
    ///     .build()?;
    /// # pulse.shutdown().await.unwrap();
    /// let error = tower_pulse::Pulse::builder()
    ///     .target_for("POST /checkout", checkout, 99.5)
    ///     .build()
    ///     .unwrap_err();
    /// assert_eq!(error.field(), "target_for");
    /// # Ok(()) }
    /// ```
    ///
    /// The share that may be bad, `1 - share`, is the error budget. The screen of the path, `api/path` and `api/paths`
    /// show its burn rates: the bad shares of the last five minutes, hour and six hours, divided by `1 - share`. At a
    /// rate of 1, exactly the budget is used up. `api/overview` lists the path if both the rate of the hour and that of
    /// the six hours are above 1. The remaining budget covers the last 30 days, or all stored days if there are fewer:
    /// 15 without a [`history`](Self::history).
    ///
    /// As with [`target`](Self::target), a 4xx that is no error and a request that was cut off are neither good nor
    /// bad. The figures are read from histograms. A request may count wrongly if its duration is within 2.2 % of
    /// `duration`; in the remaining budget, within 9 %. The target is not stored, so it applies to the past too. An
    /// instance shows only its own targets: set the same targets in all instances of a service, and in its
    /// [`Dashboard`](crate::Dashboard). For Prometheus, `metrics` counts the bad requests since the start of the
    /// instance.
    pub fn target_for(
        mut self,
        context: impl Into<String>,
        duration: Duration,
        share: f64,
    ) -> Self {
        let target = PathTarget::new(context.into(), duration, share);
        self.options.targets.of_paths.push(target);
        self
    }

    pub(super) fn validate_path_targets(&self) -> Result<(), BuildError> {
        const FIELD: &str = "target_for";
        let targets = &self.options.targets.of_paths;
        if targets.len() > MAX_PATH_TARGETS {
            let value = format!("given {} times", targets.len());
            let allowed = format!("at most {MAX_PATH_TARGETS} contexts have a target of their own");
            return Err(BuildError::new(FIELD, value, allowed));
        }
        let mut names = HashSet::new();
        for target in targets {
            let name = &*target.context.name;
            let is_name = (1..=MAX_NAME).contains(&name.len()) && escape_hidden(name) == name;
            if !is_name || name.starts_with('/') || name.chars().any(char::is_control) {
                let allowed = format!(
                    "must be a context as the dashboard names it, such as \"POST /checkout\": method and route \
                     template, 1 to {MAX_NAME} bytes without control characters"
                );
                return Err(BuildError::new(FIELD, format!("{name:?}"), allowed));
            }
            if name == ALL {
                let allowed = "for all requests, use `target`";
                return Err(BuildError::new(FIELD, format!("{name:?}"), allowed));
            }
            if !names.insert(name) {
                let value = format!("given twice for {name:?}");
                return Err(BuildError::new(FIELD, value, "each context has one target"));
            }
            measurable(FIELD, target.duration)?;
            // If the share is so close to 1 that the budget rounds to 0, there is no burn rate.
            if !(target.share > 0.0 && target.budget() > 0.0) {
                let value = format!("{:?} of {name:?}", target.share);
                let allowed = "a share between 0 and 1, both excluded, is allowed, such as 0.995";
                return Err(BuildError::new(FIELD, value, allowed));
            }
        }
        Ok(())
    }
}
