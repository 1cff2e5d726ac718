//! Sums, scores and the exponential.

use ranking_core::{Compressed, Dense, ThreadTeam, block_sum, dot, exp, rng, scores};

fn uniforms(seed: u64, count: usize) -> Vec<f64> {
    let mut out = vec![0.0; count];
    rng::fill(seed, 0, &mut out, |bits| 2.0 * rng::uniform(bits) - 1.0);
    out
}

/// The contract's words, literally.
fn sum_in_lanes(values: impl Iterator<Item = f64>) -> f64 {
    let mut s = [0.0; 4];
    for (i, value) in values.enumerate() {
        s[i % 4] += value;
    }
    (s[0] + s[2]) + (s[1] + s[3])
}

#[test]
fn dot_is_a_sum_in_lanes() {
    for n in [0, 1, 3, 4, 5, 8, 101] {
        let (a, b) = (uniforms(1, n), uniforms(2, n));
        let wanted = sum_in_lanes(a.iter().zip(&b).map(|(a, b)| a * b));
        assert_eq!(dot(&a, &b).unwrap().to_bits(), wanted.to_bits());
    }
    assert!(dot(&[1.0], &[]).is_err());
}

#[test]
fn block_sum_adds_blocks_in_order_for_any_number_of_threads() {
    for n in [0, 1, 4096, 4097, 20_001] {
        let values = uniforms(3, n);
        let wanted = values.chunks(4096).fold(0.0, |total, block| {
            total + sum_in_lanes(block.iter().copied())
        });
        for threads in [1, 2, 5] {
            let team = ThreadTeam::new(threads).unwrap();
            assert_eq!(block_sum(&values, &team).to_bits(), wanted.to_bits());
        }
    }
}

#[test]
fn exp_is_accurate_and_saturates() {
    let mut x: Vec<_> = uniforms(4, 100_001).iter().map(|u| u * 708.0).collect();
    x.extend(uniforms(5, 100_001));
    let mut out = vec![0.0; x.len()];
    exp(&x, &mut out).unwrap();
    for (x, out) in x.iter().zip(&out) {
        let error = (out / x.exp() - 1.0).abs();
        // The contract's 4e-16, and the rounding of f64::exp and of this division.
        assert!(error < 8e-16, "exp({x}) is off by {error:e}");
    }
    let edges = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e9,
        -1e9,
        f64::NAN,
    ];
    let mut out = [0.0; 7];
    exp(&edges, &mut out).unwrap();
    assert_eq!(out[..2], [1.0, 1.0]);
    assert_eq!(out[2], out[4]);
    assert_eq!(out[3], out[5]);
    assert!(out[2].is_finite() && out[3].is_normal() && out[6].is_nan());
    assert!(exp(&edges, &mut out[1..]).is_err());
}

#[test]
fn scores_are_dot_products() {
    let (rows, columns) = (700, 7);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "single precision is tested"
    )]
    let x: Vec<_> = uniforms(6, rows * columns)
        .iter()
        .map(|x| *x as f32)
        .collect();
    let weights = uniforms(7, columns);
    let wanted: Vec<_> = x
        .chunks(columns)
        .map(|row| sum_in_lanes(row.iter().zip(&weights).map(|(x, w)| f64::from(*x) * w)))
        .collect();
    let indptr: Vec<_> = (0..=700).map(|row| row * 7).collect();
    let indices: Vec<_> = (0..4900).map(|at| at % 7).collect();
    for threads in [1, 2] {
        let team = ThreadTeam::new(threads).unwrap();
        let mut out = vec![0.0; rows];
        let dense = Dense::new(&x, rows, columns).unwrap();
        scores::dense(dense, &weights, &mut out, &team).unwrap();
        assert_eq!(out, wanted);
        let sparse = Compressed::<i32, _>::new(&indptr, &indices, &x, columns).unwrap();
        scores::csr(sparse, &weights, &mut out, &team).unwrap();
        for (out, wanted) in out.iter().zip(&wanted) {
            assert!((out - wanted).abs() < 1e-14);
        }
        assert!(scores::dense(dense, &weights[1..], &mut out, &team).is_err());
        assert!(scores::csr(sparse, &weights, &mut out[1..], &team).is_err());
    }
}

#[test]
fn matrices_that_do_not_fit_are_refused() {
    assert!(Dense::new(&[0.0; 5], 2, 3).is_err());
    let compressed = |indptr: &[i64], indices: &[i64]| {
        Compressed::new(indptr, indices, &[1.0_f32, 2.0], 3).is_ok()
    };
    assert!(compressed(&[0, 1, 2], &[0, 2]));
    assert!(!compressed(&[0, 1, 2], &[0, 3]));
    assert!(!compressed(&[0, 1, 2], &[0, -1]));
    assert!(!compressed(&[0, 1], &[0, 2]));
    assert!(!compressed(&[0, 2, 1, 2], &[0, 2]));
    assert!(!compressed(&[1, 1, 2], &[0, 2]));
    assert!(!compressed(&[], &[0, 2]));
    assert!(!compressed(&[0, 1, 2], &[0]));
}
