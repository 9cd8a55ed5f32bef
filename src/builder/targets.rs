//! What requests should achieve: for all of them, and for single contexts.

use std::collections::HashSet;
use std::time::Duration;

use super::Builder;
use super::validate::measurable;
use tower_pulse_core::error::BuildError;
use tower_pulse_core::targets::PathTarget;
use tower_pulse_model::context::{ALL, MAX_NAME, escape_hidden};

/// The most contexts that have a target of their own.
const MAX_PATH_TARGETS: usize = 100;

impl<Of> Builder<Of> {
    /// The time that requests should stay below: 1 µs to 1 h, none by default. `api/overview` and `api/paths` then
    /// have `below_target`, the share of the requests that were answered well within it, from 0 to 1.
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
    /// As in Apdex, an error is never below the target, however fast it was. A 4xx and a request that was cut off
    /// (cancelled, or with an aborted body) do not count at all: the service is not to blame, and nobody knows how long
    /// it would have taken. So the share is that of the successes below the target, by all successes and errors.
    ///
    /// It comes from histograms, so that it is exact for a target that differs from this one by up to 2.2 %, and in
    /// windows that consist of slices of six hours, such as `7d`, by up to 9 %: as the `error` of the answer says. A context whose failures
    /// fill more than a hundred buckets has the larger error always. Nothing is recorded for it: another target applies to
    /// the past too.
    pub fn target(mut self, target: Duration) -> Self {
        self.targets.all = Some(target);
        self
    }

    /// A target for the requests of one context, beside [`target`](Self::target): the `share` of them that should be good,
    /// between 0 and 1 without either, which means answered within `duration`, 1 µs to 1 h, and no error. At most 100
    /// contexts, each once, by the name that the page shows.
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
    /// What may be bad is the error budget. The page of the path, `api/path` and `api/paths` tell how fast it burns: the
    /// share that was bad in the last hour and in the last six, by `1 - share`. At a rate of 1 it is used up just when its
    /// time is over; where both are above 1, `api/overview` lists the path. What is left of it is that of the last 30 days,
    /// or of as many as are kept: 15 without a [`history`](Self::history).
    ///
    /// Which requests count, and how exact that is, is as with [`target`](Self::target): a 4xx that is no error, and a
    /// request that was cut off, are neither good nor bad. The duration is that of a histogram's buckets: exact for one
    /// that differs by up to 2.2 %, and by up to 9 % in the budget. Nothing is stored for it, so that it applies to the
    /// past too, and an instance shows its own targets only: set them alike in all instances of a service, and in its
    /// [`Dashboard`](crate::Dashboard). For Prometheus, `metrics` counts from the start of the instance how many requests
    /// were bad.
    pub fn target_for(
        mut self,
        context: impl Into<String>,
        duration: Duration,
        share: f64,
    ) -> Self {
        let target = PathTarget::new(context.into(), duration, share);
        self.targets.of_paths.push(target);
        self
    }

    pub(super) fn validate_path_targets(&self) -> Result<(), BuildError> {
        const FIELD: &str = "target_for";
        let targets = &self.targets.of_paths;
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
                    "a context as the page names it, such as \"POST /checkout\": method and route template, 1 to \
                     {MAX_NAME} bytes without control characters"
                );
                return Err(BuildError::new(FIELD, format!("{name:?}"), allowed));
            }
            if name == ALL {
                let allowed = "the target of all requests is `target`";
                return Err(BuildError::new(FIELD, format!("{name:?}"), allowed));
            }
            if !names.insert(name) {
                let value = format!("given twice for {name:?}");
                return Err(BuildError::new(FIELD, value, "each context has one target"));
            }
            measurable(FIELD, target.duration)?;
            // Of a share so close to 1 that nothing may be bad, no rate can be told.
            if !(target.share > 0.0 && target.budget() > 0.0) {
                let value = format!("{:?} of {name:?}", target.share);
                let allowed = "a share between 0 and 1 without either is allowed, as 0.995";
                return Err(BuildError::new(FIELD, value, allowed));
            }
        }
        Ok(())
    }
}
