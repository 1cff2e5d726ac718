//! All embeddings of queries or documents.

use crate::constants::WIDE;
use crate::dispatch::{Job, dispatch};
use crate::factored::features::Features;
use crate::simd::Machine;
use crate::threads::ThreadTeam;

/// Rows that one thread takes at a time.
const SHARE: usize = 256;

struct Compose<'a, 'o> {
    features: &'a Features<'a>,
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
            for (entity, out) in lines {
                let out = out.as_chunks_mut().0;
                self.features.compose(machine, entity, matrix, out);
            }
            return;
        }
        for (entity, out) in lines {
            out.fill(0.0);
            self.features.for_entries(entity, |feature, value| {
                let row = &self.matrix[feature * self.width..][..self.width];
                for (out, x) in out.iter_mut().zip(row) {
                    *out += value * x;
                }
            });
        }
    }
}

/// Fill `out` with embeddings: sums of value * matrix[feature].
pub fn factored_embeddings(
    features: &Features<'_>,
    matrix: &[f32],
    width: usize,
    out: &mut [f32],
    team: &ThreadTeam,
) {
    if out.is_empty() {
        return;
    }
    let parts = out.chunks_mut(SHARE * width).enumerate();
    team.run(parts, |(part, out)| {
        dispatch(Compose {
            features,
            first: *part * SHARE,
            matrix,
            width,
            out,
        });
    });
}
