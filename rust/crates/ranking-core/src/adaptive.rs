//! Adaptive parallelism: choose serial or parallel execution by measured cost.
//!
//! Which one is faster depends on the distance between the processors and on who else uses them.
//! The bits are the same, so both are timed, and the faster one runs for a while.

use std::time::Instant;

/// Steps of a trial. Blocks of this size always run in parallel: a barrier costs nothing beside
/// them.
pub(crate) const TRIAL_STEPS: usize = 8192;
/// Steps after which both are timed again.
const RETRIAL_STEPS: usize = 128 * TRIAL_STEPS;

/// Phases, repeated forever. The first of two is not timed, because caches fill in it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    WarmParallel,
    TimeParallel,
    WarmSerial,
    TimeSerial,
    RunFaster,
}

/// The choice between serial and parallel execution.
#[derive(Debug)]
pub(crate) struct AdaptiveParallelism {
    phase: Phase,
    /// Steps of the phase, and when it began.
    steps: usize,
    start: Instant,
    /// Seconds per step in parallel, and serially.
    seconds: [f64; 2],
}

impl AdaptiveParallelism {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::WarmParallel,
            steps: 0,
            start: Instant::now(),
            seconds: [0.0; 2],
        }
    }

    /// Should the next steps run serially?
    pub(crate) fn is_serial(&self) -> bool {
        match self.phase {
            Phase::WarmParallel | Phase::TimeParallel => false,
            Phase::WarmSerial | Phase::TimeSerial => true,
            Phase::RunFaster => self.seconds[1] < self.seconds[0],
        }
    }

    /// Count steps that have been taken.
    pub(crate) fn count(&mut self, steps: usize) {
        self.steps += steps;
        let length = if self.phase == Phase::RunFaster {
            RETRIAL_STEPS
        } else {
            TRIAL_STEPS
        };
        if self.steps < length {
            return;
        }
        let now = Instant::now();
        #[allow(clippy::cast_precision_loss)]
        let seconds = (now - self.start).as_secs_f64() / self.steps as f64;
        self.phase = match self.phase {
            Phase::WarmParallel => Phase::TimeParallel,
            Phase::TimeParallel => {
                self.seconds[0] = seconds;
                Phase::WarmSerial
            }
            Phase::WarmSerial => Phase::TimeSerial,
            Phase::TimeSerial => {
                self.seconds[1] = seconds;
                Phase::RunFaster
            }
            Phase::RunFaster => Phase::WarmParallel,
        };
        (self.steps, self.start) = (0, now);
    }
}
