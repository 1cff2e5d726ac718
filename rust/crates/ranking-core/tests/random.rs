//! The generator against the vectors that the Python tests read too.

use ranking_core::rng;
use serde::Deserialize;

// Words are strings, because not every reader of JSON keeps 64 bits of a number.
#[derive(Deserialize)]
struct Case {
    seed: String,
    first: String,
    bound: String,
    bits: Vec<String>,
    uniform: Vec<f64>,
    below: Vec<u32>,
}

fn cases() -> Vec<Case> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../tests/vectors/splitmix64.json"
    );
    let text = std::fs::read_to_string(path).expect("the vectors lie in the repository");
    serde_json::from_str(&text).expect("the vectors are valid")
}

fn filled<T: Clone>(case: &Case, empty: T, turn: impl Fn(u64) -> T) -> Vec<T> {
    let mut out = vec![empty; case.bits.len()];
    let (seed, first) = (case.seed.parse().unwrap(), case.first.parse().unwrap());
    rng::fill(seed, first, &mut out, turn);
    out
}

#[test]
fn draws_equal_the_vectors() {
    assert!(!cases().is_empty());
    for case in cases() {
        let bits = filled(&case, 0, |bits| bits);
        let written: Vec<_> = bits.iter().map(|bits| format!("{bits:#018x}")).collect();
        assert_eq!(written, case.bits);
        assert_eq!(filled(&case, 0.0, rng::uniform), case.uniform);
        let bound = case.bound.parse().unwrap();
        let below = filled(&case, 0, |bits| rng::below(bits, bound));
        assert_eq!(below, case.below);
    }
}

#[test]
fn seed_zero_starts_as_published() {
    assert_eq!(rng::draw(0, 0), 0xE220_A839_7B1D_CDAF);
}

#[test]
fn any_draw_can_be_jumped_to() {
    let mut all = [0; 100];
    rng::fill(7, 0, &mut all, |bits| bits);
    let mut later = [0; 40];
    rng::fill(7, 60, &mut later, |bits| bits);
    assert_eq!(all[60..], later);
}
