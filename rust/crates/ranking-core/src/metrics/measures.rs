//! Measures of ranked lists; `ranking/kernels/reference_metrics.py` is the normative text.

use crate::features::Dense;
use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::Index;
use crate::metrics::LISTS;
use crate::metrics::blocks::Blocks;
use crate::metrics::order::{Score, sort};
use crate::metrics::pairs::PairCounter;
use crate::threads::Crew;

/// Numbers of a measure: kind, cutoff, gain, discount, shared, short.
pub const COLUMNS: usize = 6;

const RELEVANT: f64 = 1.0;

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

/// One list, best first; its arrays are kept from one list to the next and may be longer than it.
#[derive(Default)]
struct Sorted {
    grades: Vec<f64>,
    /// The lowest of them.
    bottom: f64,
    blocks: Blocks,
    /// The place of each relevant document.
    good: Vec<usize>,
    /// And its block.
    good_blocks: Vec<usize>,
    /// Relevant documents of the list and those that it lacks.
    relevant: usize,
    gains: Vec<f64>,
    best: Vec<f64>,
    keys: Vec<u64>,
    spare: Vec<u64>,
    pairs: PairCounter,
}

impl Sorted {
    /// Take the grades by place; find the blocks and the relevant documents.
    ///
    /// Each is written to the next free entry, which is counted only if it is one: a branch would
    /// be guessed wrong.
    fn gather(&mut self, lists: &RankedLists<'_>, q: usize) {
        let rows = rows_of(lists.group_ptr, q);
        let n = rows.len();
        let (order, tied) = (&lists.order[rows.clone()], &lists.tied[rows]);
        self.grades.resize(n, 0.0);
        self.good.resize(n, 0);
        self.good_blocks.resize(n, 0);
        let heads = self.blocks.room(n);
        let (mut blocks, mut found, mut bottom) = (0, 0, f64::INFINITY);
        let places = order.iter().zip(tied).zip(&mut self.grades);
        for (i, ((row, &tied), grade)) in places.enumerate() {
            *grade = lists.grades[row.position()];
            bottom = if *grade < bottom { *grade } else { bottom };
            heads[blocks] = i;
            blocks += usize::from(i == 0 || tied == 0);
            self.good[found] = i;
            self.good_blocks[found] = blocks - 1;
            found += usize::from(*grade >= RELEVANT);
        }
        self.blocks.close(blocks, n);
        self.bottom = bottom;
        self.good.truncate(found);
        self.good_blocks.truncate(found);
        self.relevant = found + relevant(&lists.unfound_grades[rows_of(lists.unfound_ptr, q)]);
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
        self.keys.resize(self.gains.len() + lost.len() + 1, 0);
        let mut count = 0;
        for gain in self.gains.iter().chain(lost) {
            self.keys[count] = gain.descending();
            count += usize::from(*gain > 0.0);
        }
        self.keys.truncate(count);
        sort(&mut self.keys, &mut self.spare, 0);
        self.best.clear();
        self.best.extend(self.keys.iter().map(|&key| value_of(key)));
    }

    /// Give each of the tied places the mean of their gains.
    fn share_gains(&mut self) {
        for block in self.blocks.ranges() {
            let gains = &mut self.gains[block];
            let total = gains.iter().fold(0.0, |total, gain| total + gain);
            let mean = total / real(gains.len());
            gains.fill(mean);
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
            PAIR_ERROR => {
                let (wrong, pairs) = self.pairs.count(&self.grades, self.bottom, &self.blocks);
                share(wrong, pairs)
            }
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
        let places = self.good.iter().enumerate();
        let total = places.fold(0.0, |total, (j, &place)| {
            total + real(j + 1) / real(place + 1)
        });
        total / real(self.relevant)
    }

    fn reciprocal_rank(&self, cutoff: Option<usize>) -> f64 {
        match self.good.first() {
            Some(&place) if cutoff.is_none_or(|cutoff| place < cutoff) => 1.0 / real(place + 1),
            _ => 0.0,
        }
    }

    fn hits(&self, cutoff: usize, shared: bool) -> f64 {
        if !shared {
            let counted = self.good.iter().take_while(|&&place| place < cutoff);
            return real(counted.count());
        }
        let blocks = self.blocks.ranges();
        let counted = blocks.take_while(|block| block.start < cutoff);
        counted.fold(0.0, |total, block| {
            let within = block.end.min(cutoff) - block.start;
            let size = block.len();
            total + real(relevant(&self.grades[block]) * within) / real(size)
        })
    }

    /// Count the pairs of a relevant document and another that is above it, or beside it.
    ///
    /// The ranks of the relevant documents, each the mean of its block's, add up to those that
    /// they have among themselves, found * (found + 1) / 2, and 1 for each other one above and
    /// 1/2 for each beside. So no block needs to be counted.
    fn mixed_pairs(&self) -> (usize, usize) {
        let (mut above, mut twice) = (0, 0);
        let (mut first, mut before) = (0, usize::MAX);
        for (j, &block) in self.good_blocks.iter().enumerate() {
            let block_rows = self.blocks.range(block);
            first = if block == before { first } else { j };
            above += block_rows.start - first;
            twice += block_rows.start + block_rows.end + 1;
            before = block;
        }
        let found = self.good.len();
        (above, twice - found * (found + 1) - 2 * above)
    }

    fn mean_rank(&self, shared: bool) -> f64 {
        let found = self.good.len();
        let twice = if shared {
            let (above, beside) = self.mixed_pairs();
            2 * above + beside + found * (found + 1)
        } else {
            self.good.iter().map(|place| 2 * (place + 1)).sum()
        };
        share(twice, 2 * found)
    }

    fn area(&self, auc: bool) -> f64 {
        let pairs = self.good.len() * (self.grades.len() - self.good.len());
        let (above, beside) = self.mixed_pairs();
        if auc {
            share(2 * (pairs - above) - beside, 2 * pairs)
        } else {
            share(above + beside, pairs)
        }
    }

    /// Once a document of the lowest grade is met, all dominating ones from there on are wrong.
    fn domination_error(&self) -> f64 {
        let above = |grades: &[f64], limit| grades.iter().filter(|&&g| g > limit).count();
        let dominating = above(&self.grades, self.bottom);
        let (mut lowest, mut wrong) = (f64::INFINITY, 0);
        for block in self.blocks.ranges() {
            let start = block.start;
            let grades = &self.grades[block];
            lowest = grades.iter().copied().fold(lowest, f64::min);
            if lowest == self.bottom {
                wrong += dominating - start;
                break;
            }
            wrong += above(grades, lowest);
        }
        share(wrong, dominating)
    }
}

/// The positive gain of a key.
fn value_of(key: u64) -> f64 {
    f64::from_bits(!key ^ (1 << 63))
}

/// A part of a whole; there is none of nothing.
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return f64::NAN;
    }
    real(part) / real(whole)
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
