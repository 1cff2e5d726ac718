//! Ranked lists and their measures, by hand and against the loops that a definition spells.

use ranking_core::metrics::{COLUMNS, RankedLists, rank_lists, ranked_metrics};
use ranking_core::{Crew, Dense};

const NONE: f64 = f64::NAN;

fn measure(grades: &[f64], scores: &[f64], unfound: &[f64], rows: &[[i64; COLUMNS]]) -> Vec<f64> {
    let crew = Crew::new(1).unwrap();
    let n = i64::try_from(grades.len()).unwrap();
    let lost = i64::try_from(unfound.len()).unwrap();
    let (mut order, mut tied) = (vec![0; grades.len()], vec![0; grades.len()]);
    rank_lists(&[0, n], scores, &mut order, &mut tied, &crew).unwrap();
    let ranks = grades.len() + unfound.len();
    let discounts: Vec<f64> = (0..ranks)
        .map(|i| 0.5_f64.powi(i.try_into().unwrap()))
        .collect();
    let (group_ptr, unfound_ptr) = ([0, n], [0, lost]);
    let lists = RankedLists::new(
        &group_ptr,
        grades,
        &order,
        &tied,
        &unfound_ptr,
        unfound,
        Dense::new(&[], 0, grades.len()).unwrap(),
        Dense::new(&[], 0, unfound.len()).unwrap(),
        Dense::new(&discounts, 1, ranks).unwrap(),
    )
    .unwrap();
    let mut out = vec![0.0; rows.len()];
    ranked_metrics(&lists, rows.as_flattened(), &mut out, &crew).unwrap();
    out
}

fn same(got: &[f64], wanted: &[f64]) {
    assert_eq!(got.len(), wanted.len());
    for (a, b) in got.iter().zip(wanted) {
        assert!(a == b || (a.is_nan() && b.is_nan()), "{got:?} {wanted:?}");
    }
}

fn all(cutoff: i64, shared: i64) -> Vec<[i64; COLUMNS]> {
    (0..12)
        .map(|kind| [kind, cutoff, 0, 0, shared, 0])
        .collect()
}

#[test]
fn by_hand() {
    // Grades by rank: 0, 2, 1; a relevant document is not in the list.
    let got = measure(&[2.0, 1.0, 0.0], &[2.0, 1.0, 3.0], &[1.0], &all(2, 0));
    let wanted = [
        (2.0 * 0.5) / (2.0 + 0.5),
        (0.0 / 2.0 + 1.0 / 2.5 + 1.25 / 2.75) / 3.0,
        (1.0 / 2.0 + 2.0 / 3.0) / 3.0,
        1.0 / 2.0,
        1.0 / 3.0,
        1.0 / 2.0,
        2.0 / 3.0,
        5.0 / 2.0,
        0.0,
        2.0 / 3.0,
        1.0,
        1.0,
    ];
    same(&got, &wanted);
}

#[test]
fn tied_documents_share_their_places() {
    let got = measure(&[1.0, 0.0], &[0.0, -0.0], &[], &all(1, 1));
    let wanted = [
        0.5,
        1.25 / 2.0,
        1.0,
        0.5,
        0.5,
        1.0,
        0.5,
        1.5,
        0.5,
        1.0,
        1.0,
        1.0,
    ];
    same(&got, &wanted);
}

#[test]
fn nothing_to_measure() {
    same(
        &measure(&[0.0, 0.0], &[1.0, 2.0], &[], &all(1, 0)),
        &[NONE; 12],
    );
    same(&measure(&[], &[], &[], &all(1, 0)), &[NONE; 12]);
}

#[test]
fn pairs_of_many_grades_are_those_of_a_loop() {
    let n = 200_u32;
    let of = |i: u32, by: u32, modulus: u32| f64::from(i * by % modulus);
    let grades: Vec<f64> = (0..n).map(|i| of(i, 37, 101) / 3.0).collect();
    let scores: Vec<f64> = (0..n).map(|i| of(i, 53, 47)).collect();
    let (mut wrong, mut pairs) = (0, 0);
    for (g, s) in grades.iter().zip(&scores) {
        for (h, t) in grades.iter().zip(&scores) {
            pairs += i32::from(g > h);
            wrong += i32::from(g > h && s <= t);
        }
    }
    let got = measure(&grades, &scores, &[], &[[9, 0, 0, 0, 0, 0]]);
    same(&got, &[f64::from(wrong) / f64::from(pairs)]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let crew = Crew::new(1).unwrap();
    let (mut order, mut tied) = (vec![0; 2], vec![0; 2]);
    assert!(rank_lists(&[0, 3], &[1.0, 2.0], &mut order, &mut tied, &crew).is_err());
    assert!(rank_lists(&[0, 2], &[1.0, 2.0], &mut order[..1], &mut tied, &crew).is_err());
    let grades = [1.0, 0.0];
    let none = Dense::new(&[], 0, 0).unwrap();
    let two = Dense::new(&[], 0, 2).unwrap();
    let one_discount = Dense::new(&[1.0, 0.5], 1, 2).unwrap();
    let build = |order: &'static [i64], discounts| {
        RankedLists::new(
            &[0, 2],
            &grades,
            order,
            &[0, 0],
            &[0, 0],
            &[],
            two,
            none,
            discounts,
        )
    };
    assert!(build(&[0, 2], one_discount).is_err());
    assert!(build(&[0, -1], one_discount).is_err());
    assert!(build(&[0, 1], none).is_err());
    let lists = build(&[0, 1], one_discount).unwrap();
    let mut out = [0.0];
    for row in [
        [12, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [3, 0, 0, 0, 0, 0],
    ] {
        assert!(ranked_metrics(&lists, &row, &mut out, &crew).is_err());
    }
    assert!(ranked_metrics(&lists, &[0, 0, 0], &mut out, &crew).is_err());
}
