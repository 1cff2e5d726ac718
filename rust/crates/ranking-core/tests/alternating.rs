//! Half-steps against a literal loop, sparse against dense, with any threads.

use std::collections::BTreeSet;

use ranking_core::alternating::{Rule, Sparse, half_step, half_step_sparse};
use ranking_core::bilinear::Error;
use ranking_core::{Compressed, ThreadTeam, rng};

const ROWS: usize = 150;
const COLUMNS: usize = 60;

fn singles(seed: u64, length: usize) -> Vec<f32> {
    let mut doubles = vec![0.0; length];
    rng::fill(seed, 0, &mut doubles, |bits| rng::uniform(bits) - 0.5);
    #[expect(clippy::cast_possible_truncation, reason = "rounding is wanted")]
    doubles.into_iter().map(|x| x as f32).collect()
}

/// M, with an empty row and a heavy one.
struct Matrix {
    indptr: Vec<i32>,
    indices: Vec<i32>,
    data: Vec<f32>,
}

impl Matrix {
    fn random(seed: u64) -> Self {
        let (mut indptr, mut indices) = (vec![0], Vec::new());
        for row in 0..ROWS as u64 {
            let count = [0, 40, 3, 5][usize::try_from(row.min(3)).unwrap()];
            let draws = (0..count).map(|k| rng::draw(seed, 100 * row + k));
            let chosen: BTreeSet<_> = draws.map(|bits| rng::below(bits, 60)).collect();
            indices.extend(chosen.into_iter().map(u32::cast_signed));
            indptr.push(i32::try_from(indices.len()).unwrap());
        }
        let data = singles(seed + 1, indices.len());
        Self {
            indptr,
            indices,
            data,
        }
    }

    fn compressed(&self) -> Compressed<'_, i32, f32> {
        Compressed::new(&self.indptr, &self.indices, &self.data, COLUMNS).unwrap()
    }

    fn entries(&self, row: usize) -> Vec<(usize, f32)> {
        let at = |row: usize| usize::try_from(self.indptr[row]).unwrap();
        let part = at(row)..at(row + 1);
        let columns = self.indices[part.clone()].iter();
        let columns = columns.map(|&column| usize::try_from(column).unwrap());
        columns.zip(self.data[part].iter().copied()).collect()
    }
}

/// The contract, number by number.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut s = [0.0_f32; 8];
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        s[i % 8] += a * b;
    }
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

fn literal_row(
    entries: &[(usize, f32)],
    embeddings: &[f32],
    width: usize,
    threshold: f32,
    limit: f32,
) -> (Vec<f32>, f64) {
    let mut omega = vec![0.0; width];
    for &(column, value) in entries {
        for (sum, x) in omega.iter_mut().zip(&embeddings[column * width..]) {
            *sum += value * x;
        }
    }
    let soft = |x: &f32| {
        let shrunk = x.abs() - threshold;
        if shrunk > 0.0 {
            shrunk.copysign(*x)
        } else {
            0.0
        }
    };
    let mut row: Vec<f32> = omega.iter().map(soft).collect();
    let square = dot(&row, &row);
    if limit > 0.0 && square > 0.0 {
        for x in &mut row {
            *x *= limit / square.sqrt();
        }
    }
    let sizes: Vec<f32> = row.iter().map(|x| x.abs()).collect();
    let size = f64::from(dot(&sizes, &vec![1.0; width]));
    let gain = f64::from(dot(&row, &omega)) - f64::from(threshold) * size;
    (row, gain)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Rows and gains of the dense half-step.
fn dense(
    matrix: &Matrix,
    embeddings: &[f32],
    width: usize,
    rule: Rule,
    threads: usize,
) -> (Vec<f32>, Vec<f64>) {
    let (mut out, mut gains) = (vec![f32::NAN; ROWS * width], vec![f64::NAN; ROWS]);
    let team = ThreadTeam::new(threads).unwrap();
    half_step(
        matrix.compressed(),
        embeddings,
        width,
        rule,
        &mut out,
        &mut gains,
        &team,
    )
    .unwrap();
    (out, gains)
}

#[test]
fn every_row_is_that_of_a_literal_loop() {
    let matrix = Matrix::random(1);
    for width in [8, 40, 104, 112, 120, 1000] {
        let embeddings = singles(3, COLUMNS * width);
        for (threshold, limit) in [(0.0_f32, 0.0_f32), (0.2, 1.0), (0.1, 0.0), (9.0, 1.0)] {
            let rule = Rule::new(threshold.into(), limit.into());
            for threads in [1, 2, 3] {
                let (out, gains) = dense(&matrix, &embeddings, width, rule, threads);
                for (row, out) in out.chunks(width).enumerate() {
                    let entries = matrix.entries(row);
                    let wanted = literal_row(&entries, &embeddings, width, threshold, limit);
                    assert_eq!(bits(out), bits(&wanted.0));
                    assert_eq!(gains[row].to_bits(), wanted.1.to_bits());
                }
            }
        }
    }
}

/// What is not zero of vectors.
fn filled(embeddings: &[f32], width: usize) -> (Vec<i64>, Vec<i32>, Vec<f32>) {
    let (mut pointers, mut dimensions, mut values) = (vec![0], Vec::new(), Vec::new());
    for vector in embeddings.chunks(width) {
        for (dimension, &x) in (0..).zip(vector) {
            if x != 0.0 {
                dimensions.push(dimension);
                values.push(x);
            }
        }
        pointers.push(i64::try_from(values.len()).unwrap());
    }
    (pointers, dimensions, values)
}

#[test]
fn sparse_vectors_make_the_same_rows() {
    let (matrix, width) = (Matrix::random(5), 40);
    let mut embeddings = singles(6, COLUMNS * width);
    for (i, x) in embeddings.iter_mut().enumerate() {
        if i % 7 != 2 || i % width > 36 {
            *x = 0.0;
        }
    }
    let given = filled(&embeddings, width);
    let sparse = Sparse::new(&given.0, &given.1, &given.2, 37).unwrap();
    for rule in [Rule::new(0.0, 0.0), Rule::new(0.2, 1.0)] {
        let (out, wanted_gains) = dense(&matrix, &embeddings, width, rule, 1);
        let wanted = filled(&out, width);
        for threads in [1, 2, 3] {
            let team = ThreadTeam::new(threads).unwrap();
            let (mut indptr, mut gains) = (vec![7; ROWS + 1], vec![f64::NAN; ROWS]);
            let part = matrix.compressed();
            let result =
                half_step_sparse(part, sparse, rule, &mut indptr, &mut gains, &team).unwrap();
            let (mut dimensions, mut values) = (vec![0; result.count()], vec![0.0; result.count()]);
            result.join(&mut dimensions, &mut values, &team).unwrap();
            assert_eq!(indptr, wanted.0);
            assert_eq!(dimensions, wanted.1);
            assert_eq!(bits(&values), bits(&wanted.2));
            assert_eq!(gains, wanted_gains);
        }
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let (matrix, team) = (Matrix::random(1), ThreadTeam::new(1).unwrap());
    let rule = Rule::new(0.0, 1.0);
    let (embeddings, mut out, mut gains) =
        (vec![0.0; COLUMNS * 8], vec![0.0; ROWS * 8], vec![0.0; ROWS]);
    let mut refused = |embeddings: &[f32], width, out: &mut [f32]| {
        let part = matrix.compressed();
        let result = half_step(part, embeddings, width, rule, out, &mut gains, &team);
        matches!(result, Err(Error::Argument(_)))
    };
    assert!(!refused(&embeddings, 8, &mut out));
    assert!(refused(&embeddings[1..], 8, &mut out));
    assert!(refused(&embeddings, 8, &mut out[1..]));
    assert!(refused(&embeddings, 4, &mut out));
    assert!(refused(&[], 0, &mut []));
    assert!(Sparse::new(&[0, 1], &[8], &[1.0], 8).is_err());
    assert!(Sparse::new(&[0, 1], &[-1], &[1.0], 8).is_err());
    assert!(Sparse::new(&[0, 2], &[1], &[1.0], 8).is_err());
    assert!(Sparse::new(&[0, 1], &[1], &[1.0], 8).is_ok());
}
