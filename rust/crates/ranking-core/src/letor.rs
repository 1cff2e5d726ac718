//! LETOR text: lines `<grade> qid:<id> <index>:<value> ... # comment`, to flat arrays.
//!
//! `ranking/kernels/reference_letor.py` says what is accepted, and which defect of a line comes
//! first. Each byte is looked at once; what is out of the ordinary is left to slower functions.

use crate::invalid::{Invalid, check_length, check_pointer};
use crate::threads::Crew;

/// Numbers of a row's place.
pub const PLACES: usize = 6;
/// Numbers that are told of a chunk.
pub const COUNTS: usize = 9;

const PAIR_BYTES: usize = 4;
const LARGEST_INDEX: u64 = 0x7FFF_FFFF;
const NO_INDEX: i64 = 0x8000_0000;
const MOST_DIGITS: usize = 20;

/// Why a line is refused; in a line with several, a smaller one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it, and the contract lists them")]
pub enum Defect {
    NulByte = 1,
    NoQid,
    NotUtf8,
    EmptyQid,
    BadGrade,
    QidElsewhere,
    NotAPair,
    NegativeIndex,
    BadIndex,
    LargeIndex,
    MissingValue,
    BadValue,
    LargeValue,
    Repeated,
}

/// What values are stored as.
pub trait Value: Copy + Send {
    /// The largest that is accepted.
    const LARGEST: f64;
    /// Round to this type.
    fn from_double(value: f64) -> Self;
}

impl Value for f32 {
    const LARGEST: f64 = f32::MAX as f64;
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding is what is wanted"
    )]
    fn from_double(value: f64) -> Self {
        value as Self
    }
}

impl Value for f64 {
    const LARGEST: f64 = f64::MAX;
    #[inline]
    fn from_double(value: f64) -> Self {
        value
    }
}

/// The arrays that are filled; the contract says with what.
#[derive(Debug)]
pub struct Output<'a, V> {
    /// One a row.
    pub grades: &'a mut [f64],
    /// `PLACES` a row.
    pub places: &'a mut [i64],
    /// One a feature.
    pub indices: &'a mut [i32],
    /// One a feature.
    pub values: &'a mut [V],
    /// `COUNTS` a chunk.
    pub counts: &'a mut [i64],
}

/// Parse chunks of whole lines; each writes to its own part of the arrays.
///
/// # Errors
/// When sizes do not fit, or a chunk does not end with a newline.
pub fn parse<V: Value>(
    text: &[u8],
    chunk_ptr: &[i64],
    row_ptr: &[i64],
    out: Output<'_, V>,
    crew: &Crew,
) -> Result<(), Invalid> {
    let mut parts = split(text, chunk_ptr, row_ptr, out)?;
    crew.enter(|| crew.for_each(&mut parts, Part::parse));
    if parts.iter().any(|part| part.overfull) {
        return Err(Invalid::new("row_ptr leaves less than a row a line."));
    }
    Ok(())
}

struct Part<'t, 'o, V> {
    text: &'t [u8],
    /// Where it begins in the whole text.
    start: usize,
    out: Output<'o, V>,
    /// Whether there are more rows than there is room for.
    overfull: bool,
}

fn split<'t, 'o, V>(
    text: &'t [u8],
    chunk_ptr: &[i64],
    row_ptr: &[i64],
    out: Output<'o, V>,
) -> Result<Vec<Part<'t, 'o, V>>, Invalid> {
    let position = |at: &i64| usize::try_from(*at).unwrap_or(usize::MAX);
    let chunks = out.counts.len() / COUNTS;
    check_length("counts", out.counts.len(), chunks * COUNTS)?;
    check_length("chunk_ptr", chunk_ptr.len(), chunks + 1)?;
    let first = chunk_ptr.first().map_or(0, position);
    let from_first = chunk_ptr.iter().map(|at| position(at).wrapping_sub(first));
    let end = chunk_ptr.last().map_or(0, position);
    check_pointer("chunk_ptr", from_first, chunks, end.wrapping_sub(first))?;
    let rows = out.grades.len();
    check_length("places", out.places.len(), rows * PLACES)?;
    check_length("values", out.values.len(), out.indices.len())?;
    let last = row_ptr.last().map_or(0, position);
    check_pointer("row_ptr", row_ptr.iter().map(position), chunks, last)?;
    if end > text.len() || last > rows || end / PAIR_BYTES > out.values.len() {
        return Err(Invalid::new("the arrays have no room for this much text."));
    }
    let (mut grades, mut places) = (out.grades, out.places);
    let skipped = first / PAIR_BYTES;
    let (mut indices, mut values) = (&mut out.indices[skipped..], &mut out.values[skipped..]);
    let mut parts = Vec::with_capacity(chunks);
    for (c, counts) in out.counts.chunks_exact_mut(COUNTS).enumerate() {
        let (start, stop) = (position(&chunk_ptr[c]), position(&chunk_ptr[c + 1]));
        let chunk = &text[start..stop];
        if chunk.last() != Some(&b'\n') {
            return Err(Invalid::new("a chunk does not end with a newline."));
        }
        let rows = position(&row_ptr[c + 1]) - position(&row_ptr[c]);
        let pairs = stop / PAIR_BYTES - start / PAIR_BYTES;
        let own = Output {
            grades: grades.split_off_mut(..rows).unwrap_or_default(),
            places: places.split_off_mut(..rows * PLACES).unwrap_or_default(),
            indices: indices.split_off_mut(..pairs).unwrap_or_default(),
            values: values.split_off_mut(..pairs).unwrap_or_default(),
            counts,
        };
        parts.push(Part {
            text: chunk,
            start,
            out: own,
            overfull: false,
        });
    }
    Ok(parts)
}

/// A defect, and the span of the word that has it, if it is one word's.
type Fault = (Defect, Span);
type Span = (usize, usize);

struct Row {
    grade: f64,
    qid: Span,
    document: Span,
    size: usize,
    low: i64,
    high: i64,
    consecutive: bool,
    /// Of the line.
    end: usize,
}

impl<V: Value> Part<'_, '_, V> {
    fn parse(&mut self) {
        let text = self.text;
        let (mut at, mut lines, mut rows, mut pairs) = (0, 0, 0, 0);
        let (mut low, mut high) = (NO_INDEX, -1);
        let mut same = None;
        let mut regular = true;
        let mut qid = (0, 0);
        let mut fault = None;
        while at < text.len() {
            lines += 1;
            at = skip_blanks(text, at);
            match text[at] {
                b'\n' => {
                    at += 1;
                    continue;
                }
                b'#' => {
                    let end = line_end(text, at);
                    if text[at..end].contains(&0) {
                        fault = Some((Defect::NulByte, (0, 0)));
                        break;
                    }
                    at = end + 1;
                    continue;
                }
                _ => {}
            }
            if rows == self.out.grades.len() {
                self.overfull = true;
                break;
            }
            let (indices, values) = (
                &mut self.out.indices[pairs..],
                &mut self.out.values[pairs..],
            );
            let row = match parse_row(text, at, indices, values) {
                Ok(row) => row,
                Err(found) => {
                    fault = Some(first_fault(text, at, found));
                    break;
                }
            };
            if text[qid.0..qid.1] != text[row.qid.0..row.qid.1] {
                qid = row.qid;
            }
            let (first, width) = *same.get_or_insert((row.low, row.size));
            regular &= row.consecutive && row.low == first && row.size == width;
            low = low.min(row.low);
            high = high.max(row.high);
            self.out.grades[rows] = row.grade;
            let place = &mut self.out.places[rows * PLACES..(rows + 1) * PLACES];
            place[0] = lines;
            place[1] = whole(row.size);
            place[2] = whole(self.start + qid.0);
            place[3] = whole(qid.1 - qid.0);
            place[5] = whole(row.document.1 - row.document.0);
            place[4] = if place[5] > 0 {
                whole(self.start + row.document.0)
            } else {
                0
            };
            rows += 1;
            pairs += row.size;
            at = row.end + 1;
        }
        let width = same.map_or(0, |(_, width)| whole(width));
        let (code, start, length) = match fault {
            None => (0, 0, 0),
            Some((defect, (start, end))) if defect >= Defect::BadGrade => {
                (defect as i64, whole(self.start + start), whole(end - start))
            }
            Some((defect, _)) => (defect as i64, 0, 0),
        };
        self.out.counts.copy_from_slice(&[
            whole(rows),
            whole(pairs),
            lines,
            if regular { width } else { -1 },
            low,
            high,
            code,
            start,
            length,
        ]);
    }
}

/// Parse the line whose first word is at `at`.
#[inline]
fn parse_row<V: Value>(
    text: &[u8],
    mut at: usize,
    indices: &mut [i32],
    values: &mut [V],
) -> Result<Row, Fault> {
    let start = at;
    let grade = read_number(text, at)
        .filter(|&(grade, end)| is_end(text[end]) && grade.is_finite())
        .map(|(grade, _)| grade);
    at = word_end(text, start);
    let grade_word = (start, at);
    at = skip_blanks(text, at);
    if !text[at..].starts_with(b"qid:") {
        return Err((Defect::NoQid, (0, 0)));
    }
    let qid = (at + 4, word_end(text, at + 4));
    if std::str::from_utf8(&text[qid.0..qid.1]).is_err() {
        return Err((Defect::NotUtf8, (0, 0)));
    }
    if text[qid.0..qid.1].contains(&0) {
        return Err((Defect::NulByte, (0, 0)));
    }
    if qid.0 == qid.1 {
        return Err((Defect::EmptyQid, (0, 0)));
    }
    let grade = grade.ok_or((Defect::BadGrade, grade_word))?;

    at = qid.1;
    let mut row = Row {
        grade,
        qid,
        document: (0, 0),
        size: 0,
        low: NO_INDEX,
        high: -1,
        consecutive: true,
        end: 0,
    };
    let mut last = -1;
    let mut rising = true;
    let fault = loop {
        at = skip_blanks(text, at);
        if matches!(text[at], b'\n' | b'#') {
            break None;
        }
        let Some((index, value, end)) = read_pair(text, at, V::LARGEST) else {
            break Some((word_fault(text, at), (at, word_end(text, at))));
        };
        at = end;
        indices[row.size] = index;
        values[row.size] = V::from_double(value);
        let index = i64::from(index);
        if row.size > 0 && index != last + 1 {
            row.consecutive = false;
            rising &= index > last;
        }
        row.low = row.low.min(index);
        row.high = row.high.max(index);
        row.size += 1;
        last = index;
    };
    if !rising && let Some(place) = first_repeat(&indices[..row.size]) {
        let mut word = (qid.1, qid.1);
        for _ in 0..=place {
            let start = skip_blanks(text, word.1);
            word = (start, word_end(text, start));
        }
        return Err((Defect::Repeated, word));
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    row.end = at;
    if text[at] == b'#' {
        row.end = line_end(text, at);
        let comment = &text[at + 1..row.end];
        if comment.contains(&0) {
            return Err((Defect::NulByte, (0, 0)));
        }
        if std::str::from_utf8(comment).is_err() {
            return Err((Defect::NotUtf8, (0, 0)));
        }
        if let Some((start, end)) = document(comment) {
            row.document = (at + 1 + start, at + 1 + end);
        }
    }
    Ok(row)
}

#[inline]
fn read_pair(text: &[u8], start: usize, largest: f64) -> Option<(i32, f64, usize)> {
    let mut at = start;
    let mut index = 0_u64;
    while text[at].is_ascii_digit() {
        index = index.wrapping_mul(10).wrapping_add(digit(text[at]));
        at += 1;
    }
    if at == start || text[at] != b':' {
        return None;
    }
    if at - start > 9 {
        index = long_index(&text[start..at])?;
    }
    let (value, end) = read_number(text, at + 1)?;
    let good = is_end(text[end]) && value.abs() <= largest;
    Some((i32::try_from(index).ok()?, value, end)).filter(|_| good)
}

// --- characters ---------------------------------------------------------------------------------
// Every scan stops at the newline that ends the text.

/// White space within a line: space, tab, carriage return, form feed, vertical tab.
#[inline]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0B | 0x0C)
}

/// What ends a word: white space, a newline or the sign of a comment.
#[inline]
fn is_end(byte: u8) -> bool {
    is_blank(byte) || matches!(byte, b'\n' | b'#')
}

#[inline]
fn digit(byte: u8) -> u64 {
    u64::from(byte - b'0')
}

#[inline]
fn whole(position: usize) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

#[inline]
fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while is_blank(text[at]) {
        at += 1;
    }
    at
}

#[inline]
fn word_end(text: &[u8], mut at: usize) -> usize {
    while !is_end(text[at]) {
        at += 1;
    }
    at
}

fn line_end(text: &[u8], at: usize) -> usize {
    let rest = &text[at..];
    at + rest
        .iter()
        .position(|&byte| byte == b'\n')
        .unwrap_or(rest.len())
}

/// The span of a document's id in a comment.
fn document(comment: &[u8]) -> Option<Span> {
    let skip = |mut at: usize| {
        while comment.get(at).is_some_and(|&byte| is_blank(byte)) {
            at += 1;
        }
        at
    };
    let mut from = 0;
    loop {
        let at = from + comment[from..].iter().position(|&byte| byte == b'd')?;
        from = at + 1;
        let alone = at == 0 || is_blank(comment[at - 1]);
        if !alone || !comment[at..].starts_with(b"docid") {
            continue;
        }
        let sign = skip(at + 5);
        if comment.get(sign) != Some(&b'=') {
            continue;
        }
        let start = skip(sign + 1);
        let id = comment[start..].split(|&byte| is_blank(byte)).next()?;
        return (!id.is_empty()).then_some((start, start + id.len()));
    }
}

// --- numbers ------------------------------------------------------------------------------------

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Read a decimal number, rounded correctly; return it and its end.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "up to 2**53 there is none")]
fn read_number(text: &[u8], start: usize) -> Option<(f64, usize)> {
    let mut at = start;
    let negative = text[at] == b'-';
    if negative || text[at] == b'+' {
        at += 1;
    }
    let mut m = 0_u64;
    let mut digits = 0;
    let mut exponent = 0_isize;
    let mut mark = at;
    while text[at].is_ascii_digit() {
        m = m.wrapping_mul(10).wrapping_add(digit(text[at]));
        at += 1;
    }
    digits += at - mark;
    if text[at] == b'.' {
        at += 1;
        mark = at;
        while text[at].is_ascii_digit() {
            m = m.wrapping_mul(10).wrapping_add(digit(text[at]));
            at += 1;
        }
        digits += at - mark;
        exponent -= (at - mark).cast_signed();
    }
    if digits == 0 {
        return None;
    }
    if text[at] | 32 == b'e' {
        at += 1;
        let falls = text[at] == b'-';
        if falls || text[at] == b'+' {
            at += 1;
        }
        mark = at;
        let mut power = 0;
        while text[at].is_ascii_digit() {
            if power < 100_000 {
                power = power * 10 + isize::from(text[at] - b'0');
            }
            at += 1;
        }
        if at == mark {
            return None;
        }
        exponent += if falls { -power } else { power };
    }
    // Up to 2**53 and up to 10**22 are exact doubles, so that one operation rounds once.
    if digits > 19 || m > 1 << 53 || exponent.unsigned_abs() > 22 {
        return Some((slow_number(&text[start..at])?, at));
    }
    let power = POWERS[exponent.unsigned_abs()];
    let value = if exponent < 0 {
        m as f64 / power
    } else {
        m as f64 * power
    };
    Some((if negative { -value } else { value }, at))
}

#[cold]
fn slow_number(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// An index of many digits, unless it is too large.
#[cold]
fn long_index(digits: &[u8]) -> Option<u64> {
    let index = digits.iter().fold(0_u64, |index, &byte| {
        index.saturating_mul(10).saturating_add(digit(byte))
    });
    (digits.len() <= MOST_DIGITS && index <= LARGEST_INDEX).then_some(index)
}

// --- defects ------------------------------------------------------------------------------------

/// What a line is refused for, given what was met first while reading it.
#[cold]
fn first_fault(text: &[u8], at: usize, fault: Fault) -> Fault {
    let line = &text[at..line_end(text, at)];
    if line.contains(&0) {
        return (Defect::NulByte, (0, 0));
    }
    if fault.0 > Defect::NotUtf8 {
        let comment = line.iter().position(|&byte| byte == b'#');
        if comment.is_some_and(|sign| std::str::from_utf8(&line[sign..]).is_err()) {
            return (Defect::NotUtf8, (0, 0));
        }
    }
    fault
}

/// What is wrong with a word that is not a good `<index>:<value>`.
#[cold]
fn word_fault(text: &[u8], start: usize) -> Defect {
    let word = &text[start..word_end(text, start)];
    let colon = word.iter().position(|&byte| byte == b':');
    let index = &word[..colon.unwrap_or(word.len())];
    if index == b"qid" {
        return Defect::QidElsewhere;
    }
    let value = colon.map_or(&word[..0], |colon| &word[colon + 1..]);
    if index.is_empty() || value.is_empty() {
        return Defect::NotAPair;
    }
    let unsigned = index.strip_prefix(b"-").unwrap_or(index);
    if unsigned.is_empty() || !unsigned.iter().all(u8::is_ascii_digit) {
        return Defect::BadIndex;
    }
    if unsigned.len() < index.len() {
        return Defect::NegativeIndex;
    }
    if long_index(index).is_none() {
        return Defect::LargeIndex;
    }
    let missing: [&[u8]; 5] = [b"null", b"none", b"na", b"nan", b"?"];
    if missing.iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return Defect::MissingValue;
    }
    match read_number(text, start + index.len() + 1) {
        Some((value, end)) if end == start + word.len() && value.is_finite() => Defect::LargeValue,
        _ => Defect::BadValue,
    }
}

/// The place of the first index that was there before.
fn first_repeat(indices: &[i32]) -> Option<usize> {
    let mut keys: Vec<(i32, usize)> = indices.iter().copied().zip(0..).collect();
    keys.sort_unstable();
    let repeats = keys.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    repeats.map(|pair| pair[1].1).min()
}
