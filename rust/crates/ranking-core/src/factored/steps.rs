//! Steps, block after block: the search by tuple, then the changes by row.

use crate::bilinear::{Failure, Form, filled};
use crate::contract::WIDE;
use crate::dispatch::dispatch;
use crate::factored::objects::Objects;
use crate::factored::search::{Cuts, Found, Room, Rules, Search, Side};
use crate::factored::table::{Projection, Table, Take, Taking};
use crate::invalid::{Invalid, check_length};
use crate::threads::Crew;
use crate::wide::Eight;

/// A block of fewer tuples is not worth the meetings of several threads.
const LEAST: usize = 16;
/// Blocks after which the rows are shared out anew.
const RECUT: usize = 64;
/// The vectors of documents are kept within a block if a thread may draw one of this many.
const KEPT: usize = 4;

/// How steps are taken.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Queries, positives and negatives, tuple after tuple.
    pub tuples: &'a [i64],
    /// Numbers of a tuple.
    pub numbers: usize,
    /// One a tuple.
    pub rates: &'a [f32],
    /// The loss.
    pub form: Form,
    /// L(rank); ranks beyond the end have the last one.
    pub rank_weights: &'a [f32],
    /// Documents that can be ranked.
    pub n_documents: usize,
    /// The largest norm of a row, or 0.
    pub max_norm: f32,
    /// The penalty.
    pub l2: f32,
    /// Tuples that are searched at the same parameters.
    pub block: usize,
}

/// U, V and the biases, or Adagrad's sums of squares.
#[derive(Debug)]
pub struct Factors<'a> {
    u: &'a mut [Eight],
    v: &'a mut [Eight],
    biases: &'a mut [f32],
    /// Registers of a row.
    chunks: usize,
}

impl<'a> Factors<'a> {
    /// Take matrices whose rows have `width` numbers, and biases, which may be empty.
    ///
    /// # Errors
    /// When the width is no multiple of 8.
    pub fn new(
        u: &'a mut [f32],
        v: &'a mut [f32],
        biases: &'a mut [f32],
        width: usize,
    ) -> Result<Self, Invalid> {
        if !width.is_multiple_of(WIDE) {
            return Err(Invalid::new(format!(
                "vectors have {width} numbers; pad them to a multiple of {WIDE}."
            )));
        }
        Ok(Self {
            u: u.as_chunks_mut().0,
            v: v.as_chunks_mut().0,
            biases,
            chunks: width / WIDE,
        })
    }

    fn check(&self, rows: (usize, usize), biases: usize, chunks: usize) -> Result<(), Invalid> {
        check_length("U", self.u.len(), rows.0.saturating_mul(chunks))?;
        check_length("V", self.v.len(), rows.1.saturating_mul(chunks))?;
        check_length("biases", self.biases.len(), biases)
    }
}

/// Take a step for each tuple, by blocks; margins and violation weights are filled.
///
/// # Errors
/// When sizes do not fit, or there is no memory; some steps may then have been taken.
pub fn factored_steps(
    queries: &Objects<'_>,
    documents: &Objects<'_>,
    plan: &Plan<'_>,
    factors: &mut Factors<'_>,
    squares: &mut Factors<'_>,
    margins: &mut [f32],
    weights: &mut [f32],
    crew: &Crew,
) -> Result<(), Failure> {
    if plan.numbers < 3 || !plan.tuples.len().is_multiple_of(plan.numbers) {
        return Err(
            Invalid::new("a tuple is a query, a positive and at least one negative.").into(),
        );
    }
    let n_tuples = plan.tuples.len() / plan.numbers;
    check_length("rates", plan.rates.len(), n_tuples)?;
    check_length("margins", margins.len(), n_tuples)?;
    check_length("weights", weights.len(), n_tuples)?;
    let rows = (queries.features(), documents.features());
    let n_biases = if factors.biases.is_empty() { 0 } else { rows.1 };
    factors.check(rows, n_biases, factors.chunks)?;
    if squares.u.is_empty() {
        squares.check(rows, 0, 0)?;
    } else {
        squares.check(rows, n_biases, factors.chunks)?;
    }
    if plan.block == 0 || plan.rank_weights.is_empty() || factors.chunks == 0 {
        return Err(Invalid::new("block, rank_weights and width must be at least 1.").into());
    }
    let most = u32::MAX as usize;
    if rows.0 > most || rows.1 > most || plan.block.min(n_tuples) > most {
        return Err(Invalid::new(format!("rows and blocks are limited to {most}.")).into());
    }
    let alone = Crew::alone();
    let few = plan.block.min(n_tuples) < LEAST;
    let crew = if few { &alone } else { crew };
    let blocks = Blocks {
        queries,
        documents,
        plan,
        adagrad: !squares.u.is_empty(),
        crew,
    };
    crew.enter(|| blocks.run(factors, squares, margins, weights))
}

/// The loop over blocks.
struct Blocks<'a> {
    queries: &'a Objects<'a>,
    documents: &'a Objects<'a>,
    plan: &'a Plan<'a>,
    adagrad: bool,
    crew: &'a Crew,
}

/// What is kept from block to block.
struct Kept {
    rooms: Vec<Room>,
    found: Vec<Found>,
    changed: Vec<Vec<usize>>,
    u_is_changed: Vec<bool>,
    v_is_changed: Vec<bool>,
    query_cuts: Vec<usize>,
    document_cuts: Vec<usize>,
}

impl Blocks<'_> {
    fn run(
        &self,
        factors: &mut Factors<'_>,
        squares: &mut Factors<'_>,
        margins: &mut [f32],
        weights: &mut [f32],
    ) -> Result<(), Failure> {
        let plan = self.plan;
        let by_trial: Vec<_> = (1..=plan.numbers - 2)
            .map(|trial| {
                let rank = plan.n_documents.saturating_sub(1) / trial;
                plan.rank_weights[rank.min(plan.rank_weights.len() - 1)]
            })
            .collect();
        let rules = Rules {
            form: plan.form,
            by_trial: &by_trial,
            adagrad: self.adagrad,
        };
        let mut kept = self.kept(factors)?;
        let margins = margins.chunks_mut(plan.block);
        let weights = weights.chunks_mut(plan.block);
        let tuples = plan.tuples.chunks(plan.block.saturating_mul(plan.numbers));
        let rates = plan.rates.chunks(plan.block);
        let blocks = tuples.zip(rates).zip(margins.zip(weights)).enumerate();
        for (block, ((tuples, rates), (margins, weights))) in blocks {
            self.search(factors, rules, tuples, rates, margins, weights, &mut kept)?;
            self.take(factors, squares, rates[0], &mut kept);
            if block % RECUT == 0 && self.crew.threads() > 1 {
                kept.recut(self.crew.threads());
            }
        }
        Ok(())
    }

    fn sides<'s>(&'s self, factors: &'s Factors<'_>) -> (Side<'s>, Side<'s>) {
        let chunks = factors.chunks;
        let queries = Side {
            objects: self.queries,
            matrix: factors.u,
            biases: &[],
            chunks,
        };
        let documents = Side {
            objects: self.documents,
            matrix: factors.v,
            biases: factors.biases,
            chunks,
        };
        (queries, documents)
    }

    fn kept(&self, factors: &Factors<'_>) -> Result<Kept, Failure> {
        let threads = self.crew.threads();
        let block = self.plan.block.min(self.plan.rates.len());
        let draws = block.saturating_mul(self.plan.numbers - 1) / threads;
        let keeps = self.documents.len() <= draws.saturating_mul(KEPT);
        // A thread that keeps vectors has one share; otherwise some, as a search may take long.
        let composed = self.documents.are_composed();
        let shares = if threads == 1 || (composed && keeps) {
            threads
        } else {
            4 * threads
        };
        let (queries, documents) = self.sides(factors);
        let rooms = (0..shares).map(|_| Room::new(&queries, &documents, keeps));
        let (u_rows, v_rows) = (self.queries.features(), self.documents.features());
        let even = |rows: usize| (1..threads).map(|part| rows / threads * part).collect();
        Ok(Kept {
            rooms: rooms.collect::<Result<_, _>>()?,
            found: (0..shares).map(|_| Found::new(threads)).collect(),
            changed: vec![Vec::new(); 2 * threads],
            u_is_changed: filled(u_rows, false)?,
            v_is_changed: filled(v_rows, false)?,
            query_cuts: even(u_rows),
            document_cuts: even(v_rows),
        })
    }

    /// Search a block's tuples, some by each thread.
    fn search(
        &self,
        factors: &Factors<'_>,
        rules: Rules<'_>,
        tuples: &[i64],
        rates: &[f32],
        margins: &mut [f32],
        weights: &mut [f32],
        kept: &mut Kept,
    ) -> Result<(), Failure> {
        let (queries, documents) = self.sides(factors);
        let size = rates.len().div_ceil(kept.rooms.len());
        let cuts = Cuts {
            queries: &kept.query_cuts,
            documents: &kept.document_cuts,
        };
        // The last block may have fewer tuples than there are shares.
        kept.found.iter_mut().for_each(Found::clear);
        let inputs = tuples
            .chunks(size * self.plan.numbers)
            .zip(rates.chunks(size));
        let outputs = margins.chunks_mut(size).zip(weights.chunks_mut(size));
        let rooms = kept.rooms.iter_mut().zip(&mut kept.found);
        let mut shares: Vec<_> = inputs
            .zip(outputs)
            .zip(rooms)
            .map(|(((tuples, rates), (margins, weights)), (room, found))| {
                let share = Search {
                    queries,
                    documents,
                    rules,
                    cuts,
                    tuples,
                    rates,
                    margins,
                    weights,
                    room,
                    found,
                };
                (Some(share), Ok(()))
            })
            .collect();
        self.crew.for_each(&mut shares, |(share, result)| {
            if let Some(share) = share.take() {
                *result = dispatch(share);
            }
        });
        shares.into_iter().try_for_each(|(_, result)| result)
    }

    /// Subtract what was found and project, some rows by each thread.
    fn take(
        &self,
        factors: &mut Factors<'_>,
        squares: &mut Factors<'_>,
        rate: f32,
        kept: &mut Kept,
    ) {
        let (l2, max_norm) = (self.plan.l2, self.plan.max_norm);
        let projection = Projection {
            shrink: (l2 > 0.0).then(|| 1.0 / (1.0 + l2 * rate)),
            max_norm: (max_norm > 0.0).then_some(max_norm),
        };
        let chunks = factors.chunks;
        let u = Table {
            rows: factors.u,
            squares: squares.u,
            biases: &mut [],
            bias_squares: &mut [],
            is_changed: &mut kept.u_is_changed,
            first: 0,
            chunks,
        };
        let v = Table {
            rows: factors.v,
            squares: squares.v,
            biases: factors.biases,
            bias_squares: squares.biases,
            is_changed: &mut kept.v_is_changed,
            first: 0,
            chunks,
        };
        let (u, v) = (u.cut_all(&kept.query_cuts), v.cut_all(&kept.document_cuts));
        let pairs = u.into_iter().zip(v).enumerate();
        let tables = pairs.flat_map(|(taker, (u, v))| [(taker, false, u), (taker, true, v)]);
        let mut takes: Vec<_> = tables
            .zip(&mut kept.changed)
            .map(|((taker, documents, table), changed)| Take {
                table,
                changed,
                documents,
                taker,
                adagrad: self.adagrad,
                projection,
            })
            .collect();
        let found = &kept.found;
        self.crew
            .for_each(&mut takes, |take| dispatch(Taking(take, found)));
    }
}

impl Kept {
    /// Share the rows out so that each thread has about as many changes as in the last block.
    fn recut(&mut self, threads: usize) {
        let of_queries = self.found.iter().flat_map(|found| &found.of_queries);
        let of_queries = of_queries.flatten().map(|change| change.row as usize);
        quantiles(of_queries.collect(), threads, &mut self.query_cuts);
        let of_documents = self.found.iter().flat_map(|found| &found.of_documents);
        let of_documents = of_documents.flatten().map(|change| change.row as usize);
        quantiles(of_documents.collect(), threads, &mut self.document_cuts);
    }
}

/// Set the cuts so that about as many rows lie between any two.
fn quantiles(mut rows: Vec<usize>, parts: usize, cuts: &mut [usize]) {
    rows.sort_unstable();
    for (part, cut) in (1..).zip(cuts) {
        let wanted = rows.len() * part / parts;
        let Some(&row) = rows.get(wanted) else {
            return;
        };
        // Before or behind a row that is changed often, whichever is nearer.
        let before = rows.partition_point(|&other| other < row);
        let behind = rows.partition_point(|&other| other <= row);
        *cut = row + usize::from(behind - wanted < wanted - before);
    }
}
