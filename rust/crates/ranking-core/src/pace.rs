//! Whether a crew works together, or one does all alone.
//!
//! Which is faster nobody knows before: that depends on how far apart the processors are, and on
//! who else needs them. The bits are the same; so both are tried, and the faster goes on for a
//! while.

use std::time::Instant;

/// Steps of a trial. Blocks of so many are best taken together: to meet takes no time beside them.
pub(crate) const TRY: usize = 8192;
/// Steps after which both are tried again.
const GO_ON: usize = 128 * TRY;

/// Stretches of steps, over and over. The first of two is not timed: caches fill in it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stretch {
    Meet,
    Together,
    Part,
    Alone,
    Faster,
}

/// A crew's pace.
#[derive(Debug)]
pub(crate) struct Pace {
    stretch: Stretch,
    /// Its steps so far, and when it began.
    steps: usize,
    start: Instant,
    /// Seconds of a step together, and alone.
    seconds: [f64; 2],
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            stretch: Stretch::Meet,
            steps: 0,
            start: Instant::now(),
            seconds: [0.0; 2],
        }
    }

    /// Should one do the next steps alone?
    pub(crate) fn is_alone(&self) -> bool {
        match self.stretch {
            Stretch::Meet | Stretch::Together => false,
            Stretch::Part | Stretch::Alone => true,
            Stretch::Faster => self.seconds[1] < self.seconds[0],
        }
    }

    /// So many more steps have been taken.
    pub(crate) fn count(&mut self, steps: usize) {
        self.steps += steps;
        let wanted = if self.stretch == Stretch::Faster {
            GO_ON
        } else {
            TRY
        };
        if self.steps < wanted {
            return;
        }
        let now = Instant::now();
        #[allow(clippy::cast_precision_loss)]
        let seconds = (now - self.start).as_secs_f64() / self.steps as f64;
        self.stretch = match self.stretch {
            Stretch::Meet => Stretch::Together,
            Stretch::Together => {
                self.seconds[0] = seconds;
                Stretch::Part
            }
            Stretch::Part => Stretch::Alone,
            Stretch::Alone => {
                self.seconds[1] = seconds;
                Stretch::Faster
            }
            Stretch::Faster => Stretch::Meet,
        };
        (self.steps, self.start) = (0, now);
    }
}
