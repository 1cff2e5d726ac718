//! Calls of a plugin's functions over arrays.
//!
//! The caller provides the functions; they must be pure, and are called from any thread.

use crate::matrix::{Feature, Index, Stored};
use crate::threads::ThreadTeam;

/// Margins, lists or rows that one thread takes at a time.
const PIECE: usize = 64;

/// Fill `out` with the function of each margin.
pub fn pairwise(
    function: impl Fn(f64) -> f64 + Sync + Send,
    margins: &[f64],
    out: &mut [f64],
    team: &ThreadTeam,
) {
    let pieces = margins.chunks(PIECE).zip(out.chunks_mut(PIECE));
    team.run(pieces, |(margins, out)| {
        for (out, &margin) in out.iter_mut().zip(*margins) {
            *out = function(margin);
        }
    });
}

/// Scores and grades by list: list i has those from `group_ptr[i]` to `group_ptr[i + 1]`.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct GradedScores<'a> {
    pub group_ptr: &'a [i64],
    pub scores: &'a [f64],
    pub grades: &'a [f64],
}

impl<'a> GradedScores<'a> {
    fn each(self) -> impl Iterator<Item = (&'a [f64], &'a [f64])> {
        self.group_ptr.windows(2).map(move |ends| {
            let part = ends[0].position()..ends[1].position();
            (&self.scores[part.clone()], &self.grades[part])
        })
    }
}

/// Fill `out` with the loss of each list.
pub fn listwise_values(
    function: impl Fn(&[f64], &[f64]) -> f64 + Sync + Send,
    lists: GradedScores<'_>,
    out: &mut [f64],
    team: &ThreadTeam,
) {
    let mut items: Vec<_> = lists.each().zip(out).collect();
    team.run(items.chunks_mut(PIECE), |piece| {
        for ((scores, grades), out) in piece.iter_mut() {
            **out = function(scores, grades);
        }
    });
}

/// Fill `out` with the slopes of each list.
pub fn listwise_slopes(
    function: impl Fn(&[f64], &[f64], &mut [f64]) + Sync + Send,
    lists: GradedScores<'_>,
    out: &mut [f64],
    team: &ThreadTeam,
) {
    let mut rest = out;
    let mut items = Vec::new();
    for (scores, grades) in lists.each() {
        let (own, after) = rest.split_at_mut(scores.len());
        items.push((scores, grades, own));
        rest = after;
    }
    team.run(items.chunks_mut(PIECE), |piece| {
        for (scores, grades, out) in piece.iter_mut() {
            function(scores, grades, out);
        }
    });
}

/// Fill `out` with the penalty of each row, widened.
pub fn penalties<F: Feature>(
    function: impl Fn(&[f64]) -> f64 + Sync + Send,
    matrix: &[F],
    columns: usize,
    out: &mut [f64],
    team: &ThreadTeam,
) {
    team.run(out.chunks_mut(PIECE).enumerate(), |(piece, out)| {
        let mut wide = vec![0.0; columns];
        for (at, out) in out.iter_mut().enumerate() {
            let first = (*piece * PIECE + at) * columns;
            let row = &matrix[first..first + columns];
            for (wide, value) in wide.iter_mut().zip(row) {
                *wide = value.widen();
            }
            *out = function(&wide);
        }
    });
}

/// Let the function change the first `width` numbers of each row, widened, and round what it leaves.
pub fn rows<F: Stored>(
    function: impl Fn(&mut [f64]) + Sync + Send,
    matrix: &mut [F],
    columns: usize,
    width: usize,
    team: &ThreadTeam,
) {
    if columns == 0 {
        return;
    }
    team.run(matrix.chunks_mut(PIECE * columns), |piece| {
        let mut wide = vec![0.0; width];
        for row in piece.chunks_exact_mut(columns) {
            for (wide, value) in wide.iter_mut().zip(&*row) {
                *wide = value.widen();
            }
            function(&mut wide);
            for (value, &wide) in row.iter_mut().zip(&wide) {
                *value = F::narrow(wide);
            }
        }
    });
}
