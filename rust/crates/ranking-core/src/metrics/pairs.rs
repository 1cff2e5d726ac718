//! Pairs of different grades, and those in which the higher grade has no higher score.

use crate::lanes::Index;
use crate::metrics::blocks::Blocks;
use crate::metrics::order::{Score, sort};

/// Grades that are the lowest plus 0, 1, ..., TOP need no sorting.
const TOP: u8 = 7;
const LEVELS: usize = TOP as usize + 1;

/// Scratch, kept from one list to the next.
#[derive(Default)]
pub(super) struct PairCounter {
    levels: Vec<usize>,
    ends: Vec<usize>,
    keys: Vec<(u64, i64)>,
    spare: Vec<(u64, i64)>,
    tree: Vec<usize>,
}

impl PairCounter {
    /// Count the wrong pairs and all; `bottom` is the lowest grade.
    pub(super) fn count(&mut self, grades: &[f64], bottom: f64, blocks: &Blocks) -> (usize, usize) {
        if self.few_levels(grades, bottom, blocks) {
            self.count_few(grades.len())
        } else {
            self.count_many(grades, blocks)
        }
    }

    /// If the grades are few, which is the usual case, take the levels and the ends of the blocks
    /// of the documents above the lowest level.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to a few levels"
    )]
    fn few_levels(&mut self, grades: &[f64], bottom: f64, blocks: &Blocks) -> bool {
        let n = grades.len();
        self.levels.resize(n, 0);
        self.ends.resize(n, 0);
        let mut fits = u32::try_from(n).is_ok();
        let mut uppers = 0;
        for block in blocks.ranges() {
            let end = block.end;
            for &grade in &grades[block] {
                let level = (grade - bottom).min(f64::from(TOP)) as u8;
                fits &= bottom + f64::from(level) == grade;
                self.levels[uppers] = usize::from(level);
                self.ends[uppers] = end;
                uppers += usize::from(level > 0);
            }
        }
        self.levels.truncate(uppers);
        self.ends.truncate(uppers);
        fits
    }

    /// All documents up to the end of a block that are not of its level or above are below it.
    fn count_few(&self, n: usize) -> (usize, usize) {
        // at_least[k] counts those of level k and above met so far, without branches.
        let mut at_least = [0_u32; LEVELS];
        let uppers = self.levels.len();
        let (mut start, mut wrong) = (0, 0);
        while start < uppers {
            let end = self.ends[start];
            let size = self.ends[start..].iter().take_while(|&&e| e == end).count();
            let block = &self.levels[start..start + size];
            for &level in block {
                for (k, count) in at_least.iter_mut().enumerate() {
                    *count += u32::from(k <= level);
                }
            }
            for &level in block {
                wrong += end - at_least[level.min(LEVELS - 1)] as usize;
            }
            start += size;
        }
        let next = at_least[2..].iter().chain(&[0]);
        let counts = at_least[1..]
            .iter()
            .zip(next)
            .map(|(a, b)| (a - b) as usize);
        let same: usize = counts.chain([n - uppers]).map(|count| count * count).sum();
        (wrong, (n * n - same) / 2)
    }

    /// A Fenwick tree over the levels of grades counts the lower ones met so far.
    fn count_many(&mut self, grades: &[f64], blocks: &Blocks) -> (usize, usize) {
        let n = grades.len();
        self.keys.clear();
        let levels = grades.iter().map(|&grade| !grade.descending());
        self.keys.extend(levels.zip(0..));
        sort(&mut self.keys, &mut self.spare, 0);
        let (mut top, mut same, mut pairs) = (0, 0, n * n.saturating_sub(1) / 2);
        let mut before = None;
        self.levels.resize(n, 0);
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
        let mut wrong = 0;
        for block in blocks.ranges() {
            for &level in &self.levels[block.clone()] {
                let mut at = level + 1;
                while at <= top + 1 {
                    self.tree[at] += 1;
                    at += at & at.wrapping_neg();
                }
            }
            for &level in &self.levels[block] {
                let mut at = level;
                while at > 0 {
                    wrong += self.tree[at];
                    at &= at - 1;
                }
            }
        }
        (wrong, pairs)
    }
}
