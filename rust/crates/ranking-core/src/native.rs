//! Calls of a plugin's functions over arrays.
//!
//! The caller provides the functions; they must be pure, and are called from any thread.

use crate::error::{Error, check_length, check_pointer};
use crate::matrix::{Feature, Index, Stored};
use crate::threads::ThreadTeam;

/// Margins, lists or rows that one thread takes at a time.
const PIECE: usize = 64;

/// Fill `out` with the function of each margin.
///
/// # Errors
/// When the lengths differ.
pub fn pairwise(
    function: impl Fn(f64) -> f64 + Sync + Send,
    margins: &[f64],
    out: &mut [f64],
    team: &ThreadTeam,
) -> Result<(), Error> {
    check_length("out", out.len(), margins.len())?;
    let pieces = margins.chunks(PIECE).zip(out.chunks_mut(PIECE));
    team.run(pieces, |(margins, out)| {
        for (out, &margin) in out.iter_mut().zip(*margins) {
            *out = function(margin);
        }
    });
    Ok(())
}

/// Scores and grades by list.
#[derive(Clone, Copy, Debug)]
pub struct GradedScores<'a> {
    group_ptr: &'a [i64],
    scores: &'a [f64],
    grades: &'a [f64],
}

impl<'a> GradedScores<'a> {
    /// List i has the scores, and grades, `group_ptr[i]..group_ptr[i + 1]`.
    ///
    /// # Errors
    /// When the lengths do not fit.
    pub fn new(group_ptr: &'a [i64], scores: &'a [f64], grades: &'a [f64]) -> Result<Self, Error> {
        check_length("grades", grades.len(), scores.len())?;
        let positions = group_ptr.iter().map(|at| at.position());
        check_pointer(
            "group_ptr",
            positions,
            group_ptr.len().saturating_sub(1),
            scores.len(),
        )?;
        Ok(Self {
            group_ptr,
            scores,
            grades,
        })
    }

    fn each(self) -> impl Iterator<Item = (&'a [f64], &'a [f64])> {
        self.group_ptr.windows(2).map(move |ends| {
            let part = ends[0].position()..ends[1].position();
            (&self.scores[part.clone()], &self.grades[part])
        })
    }
}

/// Fill `out` with the loss of each list.
///
/// # Errors
/// When `out` does not have one element per list.
pub fn listwise_values(
    function: impl Fn(&[f64], &[f64]) -> f64 + Sync + Send,
    lists: GradedScores<'_>,
    out: &mut [f64],
    team: &ThreadTeam,
) -> Result<(), Error> {
    check_length("out", out.len(), lists.group_ptr.len().saturating_sub(1))?;
    let mut items: Vec<_> = lists.each().zip(out).collect();
    team.run(items.chunks_mut(PIECE), |piece| {
        for ((scores, grades), out) in piece.iter_mut() {
            **out = function(scores, grades);
        }
    });
    Ok(())
}

/// Fill `out` with the slopes of each list.
///
/// # Errors
/// When `out` does not have one element per score.
pub fn listwise_slopes(
    function: impl Fn(&[f64], &[f64], &mut [f64]) + Sync + Send,
    lists: GradedScores<'_>,
    out: &mut [f64],
    team: &ThreadTeam,
) -> Result<(), Error> {
    check_length("out", out.len(), lists.scores.len())?;
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
    Ok(())
}

/// Fill `out` with the penalty of each row, widened.
///
/// # Errors
/// When `out` does not have one element per row.
pub fn penalties<F: Feature>(
    function: impl Fn(&[f64]) -> f64 + Sync + Send,
    matrix: &[F],
    columns: usize,
    out: &mut [f64],
    team: &ThreadTeam,
) -> Result<(), Error> {
    check_length("matrix", matrix.len(), out.len() * columns)?;
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
    Ok(())
}

/// Let the function change the first `width` numbers of each row, widened, and round what it leaves.
///
/// # Errors
/// When rows are shorter.
pub fn rows<F: Stored>(
    function: impl Fn(&mut [f64]) + Sync + Send,
    matrix: &mut [F],
    columns: usize,
    width: usize,
    team: &ThreadTeam,
) -> Result<(), Error> {
    if width > columns {
        return Err(Error::argument(format!(
            "width is {width}, but rows have {columns} numbers"
        )));
    }
    if columns == 0 {
        return Ok(());
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_margin_list_and_row_is_visited_once() {
        for threads in [1, 3] {
            let team = ThreadTeam::new(threads).unwrap();
            let numbers: Vec<f64> = (0..300_u32).map(f64::from).collect();
            let mut out = vec![0.0; 300];
            pairwise(|z| 2.0 * z, &numbers, &mut out, &team).unwrap();
            assert!(out.iter().zip(&numbers).all(|(a, b)| *a == 2.0 * b));

            let pointers: Vec<i64> = (0..=100).map(|list| 3 * list).collect();
            let lists = GradedScores::new(&pointers, &numbers, &numbers).unwrap();
            let mut sums = vec![0.0; 100];
            listwise_values(|scores, _| scores.iter().sum(), lists, &mut sums, &team).unwrap();
            assert!(
                sums.iter()
                    .zip(numbers.chunks(3))
                    .all(|(a, b)| *a == b.iter().sum::<f64>())
            );
            listwise_slopes(
                |scores, _, out| out.copy_from_slice(scores),
                lists,
                &mut out,
                &team,
            )
            .unwrap();
            assert_eq!(out, numbers);

            penalties(|row| row.iter().sum(), &numbers, 3, &mut sums, &team).unwrap();
            assert!(
                sums.iter()
                    .zip(numbers.chunks(3))
                    .all(|(a, b)| *a == b.iter().sum::<f64>())
            );
            rows(|row| row.fill(7.0), &mut out, 3, 2, &team).unwrap();
            let left = out.chunks(3).zip(numbers.chunks(3));
            assert!(left.into_iter().all(|(a, b)| a == [7.0, 7.0, b[2]]));
        }
    }

    #[test]
    fn mismatched_sizes_are_refused() {
        let team = ThreadTeam::single();
        assert!(pairwise(|z| z, &[0.0], &mut [], &team).is_err());
        assert!(GradedScores::new(&[0, 2], &[0.0], &[0.0]).is_err());
        assert!(GradedScores::new(&[], &[], &[]).is_err());
        assert!(rows(|_| (), &mut [0.0], 1, 2, &team).is_err());
        assert!(penalties(|_| 0.0, &[0.0], 1, &mut [], &team).is_err());
    }
}
