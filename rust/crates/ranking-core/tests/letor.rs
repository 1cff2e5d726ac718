//! LETOR text: numbers, defects, and bytes of any kind.

use ranking_core::letor::{COUNTS, Defect, Output, PLACES, Value, parse};
use ranking_core::{Crew, Invalid, rng};

#[derive(Debug, PartialEq)]
struct Parsed<V> {
    grades: Vec<f64>,
    places: Vec<i64>,
    indices: Vec<i32>,
    values: Vec<V>,
    counts: Vec<i64>,
}

fn lines(text: &[u8]) -> usize {
    text.split(|&byte| byte == b'\n').count() - 1
}

/// Parse with chunks that end at these places.
fn parse_chunks<V: Value + Default>(
    text: &[u8],
    ends: &[usize],
    threads: usize,
) -> Result<Parsed<V>, Invalid> {
    let position = |at: usize| i64::try_from(at).unwrap();
    let (mut chunk_ptr, mut row_ptr) = (vec![0], vec![0]);
    for &end in ends {
        chunk_ptr.push(position(end));
        row_ptr.push(position(lines(&text[..end])));
    }
    let (rows, pairs) = (lines(text), text.len() / 4);
    let mut parsed = Parsed {
        grades: vec![0.0; rows],
        places: vec![0; rows * PLACES],
        indices: vec![0; pairs],
        values: vec![V::default(); pairs],
        counts: vec![0; ends.len() * COUNTS],
    };
    let out = Output {
        grades: &mut parsed.grades,
        places: &mut parsed.places,
        indices: &mut parsed.indices,
        values: &mut parsed.values,
        counts: &mut parsed.counts,
    };
    parse(
        text,
        &chunk_ptr,
        &row_ptr,
        out,
        &Crew::new(threads).unwrap(),
    )?;
    Ok(parsed)
}

fn parse_one<V: Value + Default>(text: &[u8]) -> Parsed<V> {
    parse_chunks(text, &[text.len()], 1).unwrap()
}

fn defect<V: Value + Default>(text: &str) -> (i64, String) {
    let counts = parse_one::<V>(text.as_bytes()).counts;
    let start = usize::try_from(counts[7]).unwrap();
    let length = usize::try_from(counts[8]).unwrap();
    (counts[6], text[start..start + length].to_string())
}

#[test]
fn a_row() {
    let parsed = parse_one::<f32>(b"# first\n2 qid:10 3:.5 4:-1e-2 #docid = D7 x\n");
    assert_eq!(parsed.grades[0], 2.0);
    assert_eq!(parsed.places[..PLACES], [2, 2, 14, 2, 39, 2]);
    assert_eq!(parsed.indices[..2], [3, 4]);
    assert_eq!(parsed.values[..2], [0.5, -0.01]);
    assert_eq!(parsed.counts, [1, 2, 2, 2, 3, 4, 0, 0, 0]);
}

#[test]
fn numbers_are_rounded_correctly() {
    for number in [
        "0",
        "-0",
        "+1.",
        ".5",
        "0.1",
        "123456.789012",
        "9007199254740993",
        "1e22",
        "1e23",
        "9007199254740993e22",
        "5e-324",
        "1e-400",
        "1.7976931348623157e308",
        "0.12345678901234567890123",
    ] {
        let parsed = parse_one::<f64>(format!("{number} qid:1 1:{number}\n").as_bytes());
        let wanted: f64 = number.parse().unwrap();
        assert_eq!(parsed.values[0].to_bits(), wanted.to_bits(), "{number}");
        assert_eq!(parsed.grades[0].to_bits(), wanted.to_bits(), "{number}");
    }
}

#[test]
fn random_doubles_come_back() {
    let mut bits = vec![0; 5000];
    rng::fill(7, 0, &mut bits, |bits| bits);
    let numbers: Vec<f64> = bits.into_iter().map(f64::from_bits).collect();
    for number in numbers.into_iter().filter(|number| number.is_finite()) {
        let parsed = parse_one::<f64>(format!("0 qid:1 1:{number:e}\n").as_bytes());
        assert_eq!(parsed.values[0].to_bits(), number.to_bits(), "{number:e}");
    }
}

#[test]
fn each_defect_has_its_word() {
    for (row, wanted, word) in [
        ("1 qid:1 1:1 #\0", Defect::NulByte, ""),
        ("1 1:1", Defect::NoQid, ""),
        ("1", Defect::NoQid, ""),
        ("x qid: 1:1", Defect::EmptyQid, ""),
        ("x qid:1 y", Defect::BadGrade, "x"),
        ("1e999 qid:1", Defect::BadGrade, "1e999"),
        ("1 qid:1 qid:1", Defect::QidElsewhere, "qid:1"),
        ("1 qid:1 1: .5", Defect::NotAPair, "1:"),
        ("1 qid:1 -1:1", Defect::NegativeIndex, "-1:1"),
        ("1 qid:1 a:1", Defect::BadIndex, "a:1"),
        ("1 qid:1 2147483648:1", Defect::LargeIndex, "2147483648:1"),
        ("1 qid:1 1:NULL", Defect::MissingValue, "1:NULL"),
        ("1 qid:1 1:1_0", Defect::BadValue, "1:1_0"),
        ("1 qid:1 1:1e39", Defect::LargeValue, "1:1e39"),
        ("1 qid:1 2:1 1:1 2:3 x", Defect::Repeated, "2:3"),
    ] {
        let found = defect::<f32>(&format!("{row}\n"));
        assert_eq!(found, (wanted as i64, word.to_string()), "{row}");
    }
    assert_eq!(defect::<f64>("1 qid:1 1:1e39\n").0, 0);
    let counts = parse_one::<f64>(b"x qid:1 1:1 #\xff\n").counts;
    assert_eq!(counts[6], Defect::NotUtf8 as i64);
}

#[test]
fn what_does_not_fit_is_an_error() {
    assert!(parse_chunks::<f64>(b"1 qid:1", &[7], 1).is_err());
    assert!(parse_chunks::<f64>(b"1 qid:1\n\n", &[9, 8], 1).is_err());
    let mut counts = vec![0; COUNTS];
    let out = Output::<f64> {
        grades: &mut [],
        places: &mut [],
        indices: &mut [0; 2],
        values: &mut [0.0; 2],
        counts: &mut counts,
    };
    let crew = Crew::new(1).unwrap();
    assert!(parse(b"1 qid:1\n", &[0, 8], &[0, 0], out, &crew).is_err());
}

/// Text made of pieces that matter, or of any bytes.
fn random_text(seed: u64) -> Vec<u8> {
    let pieces: [&[u8]; 24] = [
        b" ",
        b"\n",
        b"\r\n",
        b"\t",
        b"#",
        b":",
        b"-",
        b".",
        b"e",
        b"1",
        b"0",
        b"99999999999",
        b"qid:",
        b"1 qid:1 ",
        b"2:0.5 ",
        b"1:1 ",
        b"docid",
        b" = ",
        b"\xff",
        b"\xc3\xa9",
        b"\0",
        b"nan",
        b"1 qid:a 1:1 2:2 #docid = d\n",
        b"0 qid:b 2:1 1:2\n",
    ];
    let mut draws = vec![0; 200];
    rng::fill(seed, 0, &mut draws, |bits| bits);
    let mut text = Vec::new();
    for draw in draws {
        let choice = usize::try_from(draw >> 32).unwrap();
        match seed % 2 {
            0 => text.extend_from_slice(pieces[choice % pieces.len()]),
            _ => text.push(draw.to_le_bytes()[0]),
        }
    }
    text.push(b'\n');
    text
}

#[test]
fn no_bytes_panic_and_threads_do_not_matter() {
    for seed in 0..4000 {
        let text = random_text(seed);
        let ends: Vec<usize> = (1..=text.len())
            .filter(|&at| text[at - 1] == b'\n')
            .collect();
        let one = parse_chunks::<f32>(&text, &ends, 1).unwrap();
        assert_eq!(one, parse_chunks::<f32>(&text, &ends, 3).unwrap());
        for counts in one.counts.chunks(COUNTS) {
            assert!(counts[0] <= 1 && counts[1] >= 0 && counts[2] == 1);
        }
    }
}
