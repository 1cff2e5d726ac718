//! The choice of instruction set, at run time and without unsafe code of our own.

use pulp::{Arch, Simd, WithSimd};

/// Work that is compiled once per instruction set.
///
/// `run`, and all that should use the wider instructions, must be `#[inline(always)]`: what is
/// not inlined into the dispatched function is compiled for the baseline. That is why jobs are
/// types and not closures, which cannot promise to be inlined.
pub(crate) trait Job {
    type Output;
    fn run(self) -> Self::Output;
}

struct Chosen<J>(J);

impl<J: Job> WithSimd for Chosen<J> {
    type Output = J::Output;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> J::Output {
        self.0.run()
    }
}

/// Run a job with the best instruction set of this machine.
#[inline]
pub(crate) fn dispatch<J: Job>(job: J) -> J::Output {
    Arch::new().dispatch(Chosen(job))
}

/// Name the instruction set that jobs run with.
#[must_use]
pub fn instructions() -> &'static str {
    if matches!(Arch::new(), Arch::Scalar) {
        return "baseline";
    }
    if cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
        "avx2"
    } else {
        "baseline"
    }
}
