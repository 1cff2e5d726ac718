//! The choice of instruction set, at run time and without unsafe code of our own.

use crate::simd::{Machine, Portable};

/// Work that is compiled once per instruction set.
///
/// `run`, and all that should use the machine's instructions, must be `#[inline(always)]`: what
/// is not inlined into the dispatched function is compiled for the baseline. That is why jobs are
/// types and not closures, which cannot promise to be inlined.
pub(crate) trait Job {
    type Output;
    fn run<M: Machine>(self, machine: M) -> Self::Output;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use pulp::x86::V3;
    use pulp::{Arch, NullaryFnOnce};

    use super::Job;

    struct On<J>(V3, J);

    impl<J: Job> NullaryFnOnce for On<J> {
        type Output = J::Output;
        #[inline(always)]
        fn call(self) -> J::Output {
            self.1.run(self.0)
        }
    }

    pub(super) fn machine() -> Option<V3> {
        match Arch::new() {
            Arch::V3(machine) => Some(machine),
            _ => None,
        }
    }

    pub(super) fn run<J: Job>(machine: V3, job: J) -> J::Output {
        machine.vectorize(On(machine, job))
    }
}

/// Run a job with the best instruction set of this machine.
pub(crate) fn dispatch<J: Job>(job: J) -> J::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(machine) = x86::machine() {
        return x86::run(machine, job);
    }
    job.run(Portable)
}

/// Name the instruction set that jobs run with.
#[must_use]
pub fn instructions() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if x86::machine().is_some() {
        return "avx2";
    }
    "baseline"
}
