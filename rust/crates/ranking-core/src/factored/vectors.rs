//! The vectors of all objects, composed.

use crate::contract::WIDE;
use crate::dispatch::{Job, dispatch};
use crate::factored::objects::Objects;
use crate::invalid::{Invalid, check_length};
use crate::lanes::Machine;
use crate::threads::Crew;

/// Objects that one thread takes at a time.
const SHARE: usize = 256;

struct Compose<'a, 'o> {
    objects: &'a Objects<'a>,
    first: usize,
    matrix: &'a [f32],
    width: usize,
    out: &'o mut [f32],
}

impl Job for Compose<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let lines = (self.first..).zip(self.out.chunks_exact_mut(self.width));
        if self.width.is_multiple_of(WIDE) {
            let matrix = self.matrix.as_chunks().0;
            for (object, out) in lines {
                let out = out.as_chunks_mut().0;
                self.objects.compose(machine, object, matrix, out);
            }
            return;
        }
        for (object, out) in lines {
            out.fill(0.0);
            self.objects.for_entries(object, |feature, value| {
                let row = &self.matrix[feature * self.width..][..self.width];
                for (out, x) in out.iter_mut().zip(row) {
                    *out += value * x;
                }
            });
        }
    }
}

/// Fill `out` with the vector of each object: the sum of value * matrix[feature].
///
/// # Errors
/// When sizes do not fit, or the objects have no features.
pub fn factored_vectors(
    objects: &Objects<'_>,
    matrix: &[f32],
    width: usize,
    out: &mut [f32],
    crew: &Crew,
) -> Result<(), Invalid> {
    if !objects.are_composed() {
        return Err(Invalid::new("objects without features have no sums."));
    }
    check_length(
        "matrix",
        matrix.len(),
        objects.features().saturating_mul(width),
    )?;
    check_length("out", out.len(), objects.len().saturating_mul(width))?;
    if out.is_empty() {
        return Ok(());
    }
    let mut parts: Vec<_> = out.chunks_mut(SHARE * width).enumerate().collect();
    crew.enter(|| {
        crew.for_each(&mut parts, |(part, out)| {
            dispatch(Compose {
                objects,
                first: *part * SHARE,
                matrix,
                width,
                out,
            });
        });
    });
    Ok(())
}
