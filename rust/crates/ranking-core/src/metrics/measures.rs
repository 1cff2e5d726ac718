//! Measures of ranked lists; `ranking/kernels/reference_metrics.py` is the normative text.

use crate::features::Dense;
use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::Index;
use crate::metrics::LISTS;
use crate::metrics::order::{Score, sort};
use crate::threads::Crew;

/// Numbers of a measure: kind, cutoff, gain, discount, shared, short.
pub const COLUMNS: usize = 6;

const RELEVANT: f64 = 1.0;

/// Whole grades from this on have levels that need no sorting.
const LOWEST: f64 = -2.0;
const LEVELS: usize = 8;

// `ranking.kernels.measures.Kind`.
const NDCG: i64 = 0;
const MEAN_NDCG: i64 = 1;
const AVERAGE_PRECISION: i64 = 2;
const PRECISION: i64 = 3;
const RECALL: i64 = 4;
const RECIPROCAL_RANK: i64 = 5;
const R_PRECISION: i64 = 6;
const MEAN_RANK: i64 = 7;
const AUC: i64 = 8;
const PAIR_ERROR: i64 = 9;
const DOMINATION_ERROR: i64 = 10;
const ALL_PAIRS_ERROR: i64 = 11;

/// Lists of graded documents in the order in which they are ranked.
#[derive(Clone, Copy, Debug)]
pub struct RankedLists<'a> {
    group_ptr: &'a [i64],
    grades: &'a [f64],
    order: &'a [i64],
    tied: &'a [u8],
    unfound_ptr: &'a [i64],
    unfound_grades: &'a [f64],
    gains: Dense<'a, f64>,
    unfound_gains: Dense<'a, f64>,
    discounts: Dense<'a, f64>,
}

impl<'a> RankedLists<'a> {
    /// Check that the arrays fit together.
    ///
    /// # Errors
    /// When they do not.
    pub fn new(
        group_ptr: &'a [i64],
        grades: &'a [f64],
        order: &'a [i64],
        tied: &'a [u8],
        unfound_ptr: &'a [i64],
        unfound_grades: &'a [f64],
        gains: Dense<'a, f64>,
        unfound_gains: Dense<'a, f64>,
        discounts: Dense<'a, f64>,
    ) -> Result<Self, Invalid> {
        let lists = group_ptr.len().saturating_sub(1);
        let rows = grades.len();
        let positions = |ptr: &'a [i64]| ptr.iter().map(|at| at.position());
        check_pointer("group_ptr", positions(group_ptr), lists, rows)?;
        check_pointer(
            "unfound_ptr",
            positions(unfound_ptr),
            lists,
            unfound_grades.len(),
        )?;
        check_length("order", order.len(), rows)?;
        check_length("tied", tied.len(), rows)?;
        check_length("gains", gains.length(), rows)?;
        check_length(
            "unfound_gains",
            unfound_gains.length(),
            unfound_grades.len(),
        )?;
        check_length("unfound_gains", unfound_gains.lines(), gains.lines())?;
        if order.iter().any(|row| row.position() >= rows) {
            return Err(Invalid::new("order has a row that is not there."));
        }
        let longest = (0..lists).map(|q| {
            (group_ptr[q + 1] - group_ptr[q] + unfound_ptr[q + 1] - unfound_ptr[q]).position()
        });
        if longest.max().unwrap_or(0) > discounts.length() {
            return Err(Invalid::new(
                "discounts has fewer ranks than the longest list.",
            ));
        }
        Ok(Self {
            group_ptr,
            grades,
            order,
            tied,
            unfound_ptr,
            unfound_grades,
            gains,
            unfound_gains,
            discounts,
        })
    }
}

/// One measure, as the contract numbers it.
#[derive(Clone, Copy, Debug)]
struct Measure {
    kind: i64,
    cutoff: Option<usize>,
    gain: usize,
    discount: usize,
    shared: bool,
    short: bool,
}

impl Measure {
    fn new(row: &[i64], lists: &RankedLists<'_>) -> Result<Self, Invalid> {
        let [kind, cutoff, gain, discount, shared, short] = *row else {
            return Err(Invalid::new("measures must have six columns."));
        };
        let measure = Self {
            kind,
            cutoff: (cutoff != 0).then_some(cutoff.position()),
            gain: gain.position(),
            discount: discount.position(),
            shared: shared != 0,
            short: short != 0,
        };
        let discounted = matches!(kind, NDCG | MEAN_NDCG);
        let cut = matches!(kind, PRECISION | RECALL);
        if !(NDCG..=ALL_PAIRS_ERROR).contains(&kind)
            || measure.gain > lists.gains.lines()
            || (discounted && measure.discount >= lists.discounts.lines())
            || (cut && measure.cutoff.is_none())
        {
            return Err(Invalid::new("measures has a row that means nothing."));
        }
        Ok(measure)
    }
}

/// Fill out[q, m] with measure m of list q, NaN where there is nothing to measure.
///
/// # Errors
/// When sizes do not fit, or a measure means nothing.
pub fn ranked_metrics(
    lists: &RankedLists<'_>,
    measures: &[i64],
    out: &mut [f64],
    crew: &Crew,
) -> Result<(), Invalid> {
    let measures = measures
        .chunks(COLUMNS)
        .map(|row| Measure::new(row, lists))
        .collect::<Result<Vec<_>, _>>()?;
    let count = lists.group_ptr.len() - 1;
    check_length("out", out.len(), count * measures.len())?;
    if measures.is_empty() {
        return Ok(());
    }
    let mut parts: Vec<_> = out.chunks_mut(LISTS * measures.len()).enumerate().collect();
    crew.enter(|| {
        crew.for_each(&mut parts, |(part, out)| {
            let mut one = Sorted::default();
            for (q, values) in (*part * LISTS..).zip(out.chunks_mut(measures.len())) {
                one.gather(lists, q);
                one.measure_all(lists, q, &measures, values);
            }
        });
    });
    Ok(())
}

/// One list, best first; its arrays are kept from one list to the next.
#[derive(Default)]
struct Sorted {
    grades: Vec<f64>,
    /// Where the block of each place ends.
    ends: Vec<usize>,
    /// Relevant documents of the list.
    found: usize,
    /// And with those that it lacks.
    relevant: usize,
    gains: Vec<f64>,
    best: Vec<f64>,
    keys: Vec<(u64, i64)>,
    spare: Vec<(u64, i64)>,
    levels: Vec<usize>,
    tree: Vec<usize>,
}

impl Sorted {
    fn gather(&mut self, lists: &RankedLists<'_>, q: usize) {
        let rows = rows_of(lists.group_ptr, q);
        let order = &lists.order[rows.clone()];
        self.grades.clear();
        self.grades
            .extend(order.iter().map(|row| lists.grades[row.position()]));
        let n = self.grades.len();
        self.ends.clear();
        self.ends.resize(n, 0);
        let mut end = n;
        for (i, (place, &tied)) in self
            .ends
            .iter_mut()
            .zip(&lists.tied[rows])
            .enumerate()
            .rev()
        {
            *place = end;
            if tied == 0 {
                end = i;
            }
        }
        self.found = relevant(&self.grades);
        self.relevant = self.found + relevant(&lists.unfound_grades[rows_of(lists.unfound_ptr, q)]);
    }

    fn measure_all(
        &mut self,
        lists: &RankedLists<'_>,
        q: usize,
        measures: &[Measure],
        out: &mut [f64],
    ) {
        // Gains are placed and sorted anew only where a measure needs others than the one before.
        let mut placed = None;
        for (measure, value) in measures.iter().zip(out) {
            if !matches!(measure.kind, NDCG | MEAN_NDCG) {
                *value = self.measure(measure);
                continue;
            }
            if placed != Some((measure.gain, measure.shared)) {
                self.place_gains(lists, q, measure.gain);
                if measure.shared {
                    self.share_gains();
                }
                placed = Some((measure.gain, measure.shared));
            }
            let discounts = lists.discounts.line(measure.discount);
            *value = if measure.kind == NDCG {
                self.ndcg(discounts, measure.cutoff, measure.short)
            } else {
                self.mean_ndcg(discounts)
            };
        }
    }

    /// Fill `gains` by place, and `best` with the positive ones, largest first.
    fn place_gains(&mut self, lists: &RankedLists<'_>, q: usize, table: usize) {
        let unfound = rows_of(lists.unfound_ptr, q);
        self.gains.clear();
        let lost = if table == 0 {
            self.gains.extend(self.grades.iter().map(|&g| g.max(0.0)));
            &lists.unfound_grades[unfound]
        } else {
            let gains = lists.gains.line(table - 1);
            let order = &lists.order[rows_of(lists.group_ptr, q)];
            self.gains
                .extend(order.iter().map(|row| gains[row.position()]));
            &lists.unfound_gains.line(table - 1)[unfound]
        };
        self.keys.clear();
        self.keys.resize(self.gains.len() + lost.len() + 1, (0, 0));
        let mut count = 0;
        for gain in self.gains.iter().chain(lost) {
            self.keys[count].0 = gain.descending();
            count += usize::from(*gain > 0.0);
        }
        self.keys.truncate(count);
        sort(&mut self.keys, &mut self.spare);
        self.best.clear();
        let values = self.keys.iter().map(|item| value_of(item.0));
        self.best.extend(values);
    }

    /// Give each of the tied places the mean of their gains.
    fn share_gains(&mut self) {
        let mut start = 0;
        while start < self.gains.len() {
            let stop = self.ends[start];
            let block = &mut self.gains[start..stop];
            let total = block.iter().fold(0.0, |total, gain| total + gain);
            let mean = total / real(block.len());
            block.fill(mean);
            start = stop;
        }
    }

    fn ndcg(&self, discounts: &[f64], cutoff: Option<usize>, short: bool) -> f64 {
        if self.best.is_empty() {
            return f64::NAN;
        }
        if short && cutoff.is_some_and(|cutoff| self.gains.len() < cutoff) {
            return 0.0;
        }
        let limit = cutoff.unwrap_or(usize::MAX);
        discounted(&self.gains, discounts, limit) / discounted(&self.best, discounts, limit)
    }

    fn mean_ndcg(&self, discounts: &[f64]) -> f64 {
        if self.best.is_empty() {
            return f64::NAN;
        }
        if self.gains.is_empty() {
            return 0.0;
        }
        let (mut found, mut ideal, mut total) = (0.0, 0.0, 0.0);
        for (i, (gain, discount)) in self.gains.iter().zip(discounts).enumerate() {
            found += gain * discount;
            if let Some(best) = self.best.get(i) {
                ideal += best * discount;
            }
            total += found / ideal;
        }
        total / real(self.gains.len())
    }

    /// All measures without gains.
    fn measure(&mut self, measure: &Measure) -> f64 {
        match measure.kind {
            MEAN_RANK => self.mean_rank(measure.shared),
            AUC | ALL_PAIRS_ERROR => self.area(measure.kind == AUC),
            PAIR_ERROR => self.pair_error(),
            DOMINATION_ERROR => self.domination_error(),
            _ if self.relevant == 0 => f64::NAN,
            AVERAGE_PRECISION => self.average_precision(),
            RECIPROCAL_RANK => self.reciprocal_rank(measure.cutoff),
            R_PRECISION => self.hits(self.relevant, measure.shared) / real(self.relevant),
            _ => {
                let cutoff = measure.cutoff.unwrap_or(1);
                let of = if measure.kind == RECALL {
                    self.relevant
                } else {
                    cutoff
                };
                self.hits(cutoff, measure.shared) / real(of)
            }
        }
    }

    fn average_precision(&self) -> f64 {
        // What is not relevant adds 0.0: a division is cheaper than a branch that is guessed wrong.
        let (mut count, mut total) = (0, 0.0);
        for (i, &grade) in self.grades.iter().enumerate() {
            let relevant = usize::from(grade >= RELEVANT);
            count += relevant;
            total += real(relevant * count) / real(i + 1);
        }
        total / real(self.relevant)
    }

    fn reciprocal_rank(&self, cutoff: Option<usize>) -> f64 {
        let places = self.grades.iter().take(cutoff.unwrap_or(usize::MAX));
        let first = places.enumerate().find(|place| *place.1 >= RELEVANT);
        first.map_or(0.0, |(i, _)| 1.0 / real(i + 1))
    }

    fn hits(&self, cutoff: usize, shared: bool) -> f64 {
        let places = cutoff.min(self.grades.len());
        if !shared {
            return real(relevant(&self.grades[..places]));
        }
        let (mut start, mut total) = (0, 0.0);
        while start < places {
            let stop = self.ends[start];
            let within = stop.min(places) - start;
            total += real(relevant(&self.grades[start..stop]) * within) / real(stop - start);
            start = stop;
        }
        total
    }

    fn mean_rank(&self, shared: bool) -> f64 {
        if self.found == 0 {
            return f64::NAN;
        }
        let (mut start, mut end, mut twice) = (0, 0, 0);
        for (i, (&grade, &stop)) in self.grades.iter().zip(&self.ends).enumerate() {
            if i == end {
                (start, end) = (i, stop);
            }
            if grade >= RELEVANT {
                twice += if shared { start + end + 1 } else { 2 * (i + 1) };
            }
        }
        real(twice) / real(2 * self.found)
    }

    fn area(&self, auc: bool) -> f64 {
        let pairs = self.found * (self.grades.len() - self.found);
        if pairs == 0 {
            return f64::NAN;
        }
        let (mut start, mut right, mut tied, mut above) = (0, 0, 0, 0);
        while start < self.grades.len() {
            let stop = self.ends[start];
            let good = relevant(&self.grades[start..stop]);
            let bad = stop - start - good;
            right += above * bad;
            tied += good * bad;
            above += good;
            start = stop;
        }
        if auc {
            real(2 * right + tied) / real(2 * pairs)
        } else {
            real(pairs - right) / real(pairs)
        }
    }

    fn pair_error(&mut self) -> f64 {
        let (wrong, pairs) = if self.few_levels() {
            self.few_wrong_pairs()
        } else {
            self.wrong_pairs()
        };
        if pairs == 0 {
            return f64::NAN;
        }
        real(wrong) / real(pairs)
    }

    /// Number the levels directly if all grades are whole and few, which is the usual case.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to a few levels"
    )]
    fn few_levels(&mut self) -> bool {
        let mut fits = u32::try_from(self.grades.len()).is_ok();
        self.levels.clear();
        self.levels.extend(self.grades.iter().map(|grade| {
            let level = (grade - LOWEST).clamp(0.0, real(LEVELS - 1)) as usize;
            fits &= real(level) + LOWEST == *grade;
            level
        }));
        fits
    }

    /// lower[k] counts the documents below level k met so far.
    fn few_wrong_pairs(&self) -> (usize, usize) {
        let n = self.levels.len();
        let mut lower = [0_u32; LEVELS];
        let (mut start, mut wrong) = (0, 0);
        while start < n {
            let stop = self.ends[start];
            for &level in &self.levels[start..stop] {
                for (k, count) in lower.iter_mut().enumerate() {
                    *count += u32::from(k > level);
                }
            }
            for &level in &self.levels[start..stop] {
                wrong += lower[level.min(LEVELS - 1)] as usize;
            }
            start = stop;
        }
        let ends = lower[1..].iter().map(|&count| count as usize).chain([n]);
        let counts = ends.zip(lower).map(|(end, count)| end - count as usize);
        let same: usize = counts.map(|count| count * count).sum();
        (wrong, (n * n - same) / 2)
    }

    /// A Fenwick tree over the levels of grades counts the lower ones met so far.
    fn wrong_pairs(&mut self) -> (usize, usize) {
        let n = self.grades.len();
        self.keys.clear();
        let levels = self.grades.iter().map(|&grade| !grade.descending());
        self.keys.extend(levels.zip(0..));
        sort(&mut self.keys, &mut self.spare);
        let (mut top, mut same, mut pairs) = (0, 0, n * n.saturating_sub(1) / 2);
        let mut before = None;
        for &(key, place) in &self.keys {
            if before.is_some_and(|before| before != key) {
                top += 1;
                same = 0;
            }
            before = Some(key);
            pairs -= same;
            same += 1;
            self.levels[place.position()] = top;
        }
        self.tree.clear();
        self.tree.resize(top + 2, 0);
        let (mut start, mut wrong) = (0, 0);
        while start < n {
            let stop = self.ends[start];
            for &level in &self.levels[start..stop] {
                let mut at = level + 1;
                while at <= top + 1 {
                    self.tree[at] += 1;
                    at += at & at.wrapping_neg();
                }
            }
            for &level in &self.levels[start..stop] {
                let mut at = level;
                while at > 0 {
                    wrong += self.tree[at];
                    at &= at - 1;
                }
            }
            start = stop;
        }
        (wrong, pairs)
    }

    fn domination_error(&self) -> f64 {
        let bottom = self.grades.iter().copied().fold(f64::INFINITY, f64::min);
        let (mut start, mut lowest) = (0, f64::INFINITY);
        let (mut wrong, mut dominating) = (0_usize, 0_usize);
        while start < self.grades.len() {
            let stop = self.ends[start];
            let block = &self.grades[start..stop];
            lowest = block.iter().copied().fold(lowest, f64::min);
            for &grade in block {
                dominating += usize::from(grade > bottom);
                wrong += usize::from(grade > lowest);
            }
            start = stop;
        }
        if dominating == 0 {
            return f64::NAN;
        }
        real(wrong) / real(dominating)
    }
}

/// The positive gain of a key.
fn value_of(key: u64) -> f64 {
    f64::from_bits(!key ^ (1 << 63))
}

fn rows_of(ptr: &[i64], q: usize) -> std::ops::Range<usize> {
    ptr[q].position()..ptr[q + 1].position()
}

fn relevant(grades: &[f64]) -> usize {
    grades.iter().filter(|&&grade| grade >= RELEVANT).count()
}

fn discounted(gains: &[f64], discounts: &[f64], limit: usize) -> f64 {
    gains
        .iter()
        .zip(discounts)
        .take(limit)
        .fold(0.0, |total, (gain, discount)| total + gain * discount)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the contract converts counts to doubles"
)]
fn real(count: usize) -> f64 {
    count as f64
}
