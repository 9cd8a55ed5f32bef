//! The machine of an instance in one minute: the resources of its process, and the delays of its runtime.

use super::pack::packed;

/// From this median scheduling delay on, a runtime is starved: tasks that are ready wait for a worker, or the worker
/// waits for a CPU. Without load, a runtime is late by about a millisecond, because its timers are rounded up to
/// milliseconds.
pub const HIGH_DELAY_MICROS: u64 = 10_000;

packed! {
    /// The runtime and the process of an instance in one minute. *At the end* means the end of the minute. Fields that
    /// the system does not report are `None`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MachineMinute {
        /// The number of CPUs that the process may use.
        pub cpus: u64,
        /// The CPU time that the process used, in thousandths of one CPU: 2,000 for two busy CPUs.
        pub cpu_thousandths: Option<u64>,
        /// The resident memory at the end, in bytes.
        pub resident_bytes: Option<u64>,
        /// Open files at the end.
        pub open_files: Option<u64>,
        /// The limit of open files.
        pub max_open_files: Option<u64>,
        /// Threads at the end.
        pub threads: Option<u64>,
        /// Workers of the runtime.
        pub workers: u64,
        /// The share of the time in which the workers were busy, in thousandths.
        pub busy_thousandths: Option<u64>,
        /// Tasks in the global queue of the runtime at the end.
        pub queued_tasks: u64,
        /// Tasks that were alive at the end.
        pub alive_tasks: u64,
        /// The median delay of a task that runs every 100 ms, in microseconds; `None` if it never ran.
        pub delay_micros: Option<u64>,
        /// The longest of these delays, in microseconds.
        pub worst_delay_micros: Option<u64>,
    }
}

impl MachineMinute {
    /// Whether the median delay reached [`HIGH_DELAY_MICROS`]. A long poll may then include
    /// a wait for a CPU.
    pub fn is_delayed(&self) -> bool {
        self.delay_micros
            .is_some_and(|delay| delay >= HIGH_DELAY_MICROS)
    }

    /// The share of its CPUs that the process used, 0 to 1.
    pub fn cpu_share(&self) -> Option<f64> {
        let cpus = self.cpus.max(1) as f64;
        Some(self.cpu_thousandths? as f64 / 1e3 / cpus)
    }
}

/// Whether the scheduling delay of an instance was high in at least half of the minutes in which it is known.
pub fn was_delayed<'a>(minutes: impl IntoIterator<Item = &'a MachineMinute>) -> bool {
    let (mut known, mut delayed) = (0, 0);
    for minute in minutes {
        known += usize::from(minute.delay_micros.is_some());
        delayed += usize::from(minute.is_delayed());
    }
    delayed > 0 && 2 * delayed >= known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delayed(micros: Option<u64>) -> MachineMinute {
        MachineMinute {
            delay_micros: micros,
            ..MachineMinute::default()
        }
    }

    #[test]
    fn a_delay_is_high_in_half_of_the_minutes_that_are_known() {
        let (calm, high, unknown) = (delayed(Some(1_100)), delayed(Some(40_000)), delayed(None));
        assert!(!was_delayed([]));
        assert!(!was_delayed([&unknown, &calm]));
        assert!(!was_delayed([&high, &calm, &calm]));
        assert!(was_delayed([&high, &calm, &unknown, &unknown]));
        assert!(was_delayed([&high]));
    }

    #[test]
    fn the_share_of_cpu_time_is_of_all_cpus() {
        let minute = |cpus, cpu_thousandths| MachineMinute {
            cpus,
            cpu_thousandths,
            ..MachineMinute::default()
        };
        assert_eq!(minute(1, Some(980)).cpu_share(), Some(0.98));
        assert_eq!(minute(2, Some(980)).cpu_share(), Some(0.49));
        assert_eq!(minute(1, None).cpu_share(), None);
    }
}
