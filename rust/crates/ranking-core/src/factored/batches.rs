//! The phases of a batch, and the state between batches.

use crate::dispatch::{Job, dispatch};
use crate::error::lengthen;
use crate::factored::features::Features;
use crate::factored::occurrences::OccurrenceIndex;
use crate::factored::parameters::{FactoredFeatures, FactoredState, Factors, Side};
use crate::factored::records::{ShareRecords, StepRecords};
use crate::factored::rows::{Addends, Piece, RowUpdate, UpdateOwn, UpdateShared};
use crate::factored::sample::{Lists, Sample, SampleBuffers, Samples, Slopes, Triplet};
use crate::factored::share_embeddings::{BatchEmbeddings, ShareEmbeddings};
use crate::factored::sums::{Gradients, Sum, Terms};
use crate::factored::tables::Table;
use crate::factored::triplets::TripletSource;
use crate::listwise::ListwiseLoss;
use crate::simd::Eight;
use crate::threads::ThreadTeam;

/// Batches after which the rows are shared out among threads again.
const REBALANCE: usize = 64;
/// About so many documents of a triplet are read.
const DOCUMENTS_READ: usize = 4;
/// Step documents that one thread indexes before another could start to help.
const FEW: usize = 4096;
/// Slots that are summed at a time, at least.
const SMALLEST: usize = 64;

/// Work of a phase, for whichever thread is free.
type Task<'t> = Box<dyn FnOnce() + Send + 't>;

fn run(team: &ThreadTeam, tasks: Vec<Task<'_>>) {
    team.run(tasks.into_iter().map(Some), |task| {
        if let Some(task) = task.take() {
            task();
        }
    });
}

fn task<'t>(job: impl Job<Output = ()> + Send + 't) -> Task<'t> {
    Box::new(|| dispatch(job))
}

/// Occurrences of the queries, or documents, of the steps.
#[derive(Debug)]
enum Indexes {
    /// They have rows of their own; the thread that updates a row indexes it.
    Own(Vec<OccurrenceIndex>),
    /// They share rows, and are indexed together.
    Shared(OccurrenceIndex),
}

impl Indexes {
    fn new(side: &Side<'_>, threads: usize) -> Self {
        let new = || OccurrenceIndex::new(side.first.features.len());
        if side.is_plain() {
            Self::Own((0..threads).map(|_| new()).collect())
        } else {
            Self::Shared(new())
        }
    }

    /// Index those that share rows.
    fn build(&mut self, terms: &impl Terms) {
        if let Self::Shared(index) = self {
            index.build(terms, 0..usize::MAX);
        }
    }

    /// Those of rows of their own, or the one of shared rows.
    fn split(&mut self) -> (&mut [OccurrenceIndex], Option<&OccurrenceIndex>) {
        match self {
            Self::Own(indexes) => (indexes, None),
            Self::Shared(index) => (&mut [], Some(index)),
        }
    }
}

/// Sums of gradients, by slot.
#[derive(Debug, Default)]
struct Sums {
    both: Vec<Eight>,
    biases: Vec<[f32; 2]>,
}

impl Sums {
    /// Sum gradients, by shares of the slots.
    fn tasks<'t>(
        &'t mut self,
        gradients: Gradients<'t, impl Terms + 't>,
        phase: Phase,
    ) -> impl Iterator<Item = Task<'t>> {
        let (slots, width) = (gradients.index.entities().len(), phase.width);
        let size = slots.div_ceil(4 * phase.threads).max(SMALLEST);
        lengthen(&mut self.both, slots * 2 * width, Eight::default());
        lengthen(&mut self.biases, slots, [0.0; 2]);
        let both = self.both[..slots * 2 * width].chunks_mut(size * 2 * width);
        let outputs = both.zip(self.biases[..slots].chunks_mut(size)).enumerate();
        outputs.map(move |(share, (out, biases))| {
            task(Sum {
                gradients,
                first: share * size,
                width,
                out,
                biases,
            })
        })
    }

    /// The sums, for rows of the first halves.
    fn addends(&self, width: usize) -> Addends<'_> {
        Addends {
            sums: [&self.both, &[]],
            count: usize::MAX,
            biases: &self.biases,
            width,
            start: 0,
        }
    }
}

/// How the rows are updated in a batch.
#[derive(Clone, Copy)]
struct Phase {
    update: RowUpdate,
    /// Registers of an embedding.
    width: usize,
    threads: usize,
    /// Whether rows are first shared out among threads.
    rebalance: bool,
}

/// What is sampled: triplets from `first` on, with the weights of violations by trial.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) source: &'a TripletSource<'a>,
    pub(super) by_trial: &'a [f32],
    pub(super) first: usize,
}

/// Buffers that are reused from batch to batch, and the choice of phases.
pub(super) struct Batches<'a> {
    features: &'a FactoredFeatures<'a>,
    team: &'a ThreadTeam,
    shares: usize,
    buffers: Vec<SampleBuffers>,
    records: StepRecords,
    /// Of queries and of documents.
    embeddings: [BatchEmbeddings; 2],
    indexes: [Indexes; 2],
    sums: [Sums; 2],
    /// U, V and S.
    tables: [Table; 3],
    /// Whether the embedding of each query, and of each document, is a row itself.
    is_plain: [bool; 2],
    updates: usize,
}

impl<'a> Batches<'a> {
    /// Prepare for batches of `size` triplets.
    pub(super) fn new(
        features: &'a FactoredFeatures<'a>,
        factors: Factors<'_>,
        size: usize,
        team: &'a ThreadTeam,
    ) -> Self {
        let shares = team.threads();
        let sides = factors.sides(features);
        let [queries, documents] = &sides;
        let table = |side: &Side<'_>| {
            let rows = side.first.features.n_features();
            Table::new(if side.is_plain() { 0 } else { rows })
        };
        let contexts = features.contexts.map_or(0, |x| x.n_features());
        let reads = size.saturating_mul(DOCUMENTS_READ);
        Self {
            features,
            team,
            shares,
            buffers: (0..shares).map(|_| SampleBuffers::default()).collect(),
            records: StepRecords::default(),
            embeddings: [
                BatchEmbeddings::new(queries, size, shares),
                BatchEmbeddings::new(documents, reads, shares),
            ],
            indexes: sides.map(|side| Indexes::new(&side, shares)),
            sums: [Sums::default(), Sums::default()],
            tables: [table(queries), table(documents), Table::new(contexts)],
            is_plain: sides.map(|side| side.is_plain()),
            updates: 0,
        }
    }

    /// Begin a batch, because the parameters have changed: return the sides, and what each share
    /// reads and records; a share has `size` steps.
    fn begin<'s>(
        &'s mut self,
        factors: Factors<'s>,
        size: usize,
        documents: &[usize],
    ) -> ([Side<'s>; 2], Vec<Share<'s>>) {
        let sides = factors.sides(self.features);
        for (embeddings, side) in self.embeddings.iter_mut().zip(&sides) {
            embeddings.begin(side, self.team);
        }
        let [queries, of_documents] = &mut self.embeddings;
        let embeddings = queries.shares(self.shares).into_iter();
        let embeddings = embeddings.zip(of_documents.shares(self.shares));
        let width = sides[0].width();
        let records = self.records.begin(size, documents, width, self.is_plain);
        let shares = embeddings.zip(&mut self.buffers).zip(records);
        let shares = shares.map(|((embeddings, buffers), records)| Share {
            embeddings: embeddings.into(),
            buffers,
            records,
        });
        (sides, shares.collect())
    }

    /// Sample triplets, and record their steps.
    pub(super) fn sample(
        &mut self,
        factors: Factors<'_>,
        request: &Request<'_>,
        out: Samples<'_>,
        slopes: Slopes<'_>,
    ) {
        let team = self.team;
        let size = out.len().div_ceil(self.shares).max(1);
        let counts = vec![2 * size; self.shares];
        let (sides, shares) = self.begin(factors, size, &counts);
        let shares = out.chunks(size).zip(shares).enumerate();
        let tasks = shares.map(|(number, (out, share))| {
            task(Sample {
                request: Request {
                    first: request.first + number * size,
                    ..*request
                },
                sides,
                embeddings: share.embeddings,
                out,
                buffers: share.buffers,
                steps: Some((slopes.share(number, size), share.records)),
            })
        });
        run(team, tasks.collect());
    }

    /// Sample and score lists, and record their steps; queries and positives are written.
    pub(super) fn sample_lists(
        &mut self,
        factors: Factors<'_>,
        request: &Request<'_>,
        (loss, learning_rates): (ListwiseLoss<'_>, &[f32]),
        triplets: &mut [Triplet],
        losses: &mut [f64],
    ) {
        let team = self.team;
        let size = losses.len().div_ceil(self.shares).max(1);
        let counts = vec![(1 + request.source.max_trials()) * size; self.shares];
        let (sides, shares) = self.begin(factors, size, &counts);
        let outputs = triplets.chunks_mut(size).zip(losses.chunks_mut(size));
        let shares = outputs.zip(shares).enumerate();
        let tasks = shares.map(|(number, ((triplets, losses), share))| {
            let learning_rates = learning_rates.chunks(size).nth(number);
            task(Lists {
                sample: Sample {
                    request: Request {
                        first: request.first + number * size,
                        ..*request
                    },
                    sides,
                    embeddings: share.embeddings,
                    out: Samples {
                        triplets,
                        margins: &mut [],
                        weights: &mut [],
                    },
                    buffers: share.buffers,
                    steps: None,
                },
                loss,
                learning_rates: learning_rates.unwrap_or_default(),
                losses,
                records: share.records,
            })
        });
        run(team, tasks.collect());
    }

    /// Take the recorded steps.
    pub(super) fn update(&mut self, state: &mut FactoredState<'_>, update: RowUpdate) {
        let threads = self.team.threads();
        let halves = 1 + usize::from(self.features.contexts.is_some());
        let phase = Phase {
            update,
            width: state.factors.chunks * halves,
            threads,
            rebalance: threads > 1 && self.updates.is_multiple_of(REBALANCE),
        };
        self.updates += 1;
        self.build_indexes();
        self.sum_gradients(state, phase);
        if self.is_plain != [true; 2] {
            self.update_shared(state, phase);
        }
    }

    /// Index queries and documents that share rows.
    fn build_indexes(&mut self) {
        // Indexing reads no embeddings.
        let views = &[Vec::new(), Vec::new()];
        let (of_queries, of_documents) = self.records.terms(views);
        let [queries, documents] = &mut self.indexes;
        if of_documents.count() < FEW {
            documents.build(&of_documents);
            queries.build(&of_queries);
            return;
        }
        let tasks: Vec<Task<'_>> = vec![
            Box::new(|| documents.build(&of_documents)),
            Box::new(|| queries.build(&of_queries)),
        ];
        run(self.team, tasks);
    }

    /// Sum gradients by query and document; rows of a single one are updated at once.
    fn sum_gradients(&mut self, state: &mut FactoredState<'_>, phase: Phase) {
        let (features, shares) = (self.features, self.shares);
        let views = self.embeddings.each_ref().map(|near| near.views(shares));
        let (of_queries, of_documents) = self.records.terms(&views);
        let [u, v, s] = &mut self.tables;
        let [u_rows, v_rows, _] = Piece::all(state);
        let [query_sums, document_sums] = &mut self.sums;
        let mut tasks = Vec::new();
        let [queries, documents] = self.indexes.each_mut().map(Indexes::split);
        if let (Some(contexts), Some(of_contexts), Some(of_documents)) =
            (&features.contexts, queries.1, documents.1)
        {
            let slots = [
                (contexts, of_contexts.entities()),
                (&features.documents, of_documents.entities()),
            ];
            tasks.push(Box::new(move || s.list(&slots)) as Task<'_>);
        }
        let of_u = own_tasks(u, queries.0, of_queries, u_rows, phase);
        let of_v = own_tasks(v, documents.0, of_documents, v_rows, phase);
        if let Some(index) = documents.1 {
            let gradients = Gradients {
                index,
                terms: of_documents,
            };
            tasks.extend(sum_tasks(
                gradients,
                &features.documents,
                v,
                document_sums,
                phase,
            ));
        }
        if let Some(index) = queries.1 {
            let gradients = Gradients {
                index,
                terms: of_queries,
            };
            tasks.extend(sum_tasks(
                gradients,
                &features.queries,
                u,
                query_sums,
                phase,
            ));
        }
        tasks.extend(pairs(of_u, of_v));
        run(self.team, tasks);
    }

    /// Update the rows that queries, or documents, share.
    fn update_shared(&mut self, state: &mut FactoredState<'_>, phase: Phase) {
        let start = state.factors.chunks;
        let [u, v, s] = &mut self.tables;
        let [u_rows, v_rows, s_rows] = Piece::all(state);
        let [query_sums, document_sums] = &self.sums;
        let mut tasks = Vec::new();
        if let (Some(_), Indexes::Shared(queries)) = (self.features.contexts, &self.indexes[0]) {
            let addends = Addends {
                sums: [&query_sums.both, &document_sums.both],
                count: queries.entities().len(),
                biases: &[],
                width: phase.width,
                start,
            };
            tasks.extend(shared_tasks(s, s_rows, addends, phase));
        }
        if !self.is_plain[1] {
            let addends = document_sums.addends(phase.width);
            tasks.extend(shared_tasks(v, v_rows, addends, phase));
        }
        if !self.is_plain[0] {
            let addends = query_sums.addends(phase.width);
            tasks.extend(shared_tasks(u, u_rows, addends, phase));
        }
        run(self.team, tasks);
    }
}

/// List the features of queries, or documents, by row, and sum their gradients.
fn sum_tasks<'t>(
    gradients: Gradients<'t, impl Terms + 't>,
    features: &'t Features<'t>,
    table: &'t mut Table,
    sums: &'t mut Sums,
    phase: Phase,
) -> impl Iterator<Item = Task<'t>> {
    let slots = [(features, gradients.index.entities())];
    let list: Task<'t> = Box::new(move || table.list(&slots));
    std::iter::once(list).chain(sums.tasks(gradients, phase))
}

/// Update rows of a single query or document, each piece with an index of its own.
fn own_tasks<'t>(
    table: &mut Table,
    indexes: &'t mut [OccurrenceIndex],
    terms: impl Terms + 't,
    piece: Piece<'t>,
    phase: Phase,
) -> Vec<Task<'t>> {
    if phase.rebalance && !indexes.is_empty() {
        table.share_out(&terms, phase.threads);
    }
    let pieces = indexes.iter_mut().zip(table.cut(piece));
    let tasks = pieces.map(|(index, piece)| {
        task(UpdateOwn {
            index,
            terms,
            piece,
            update: phase.update,
        })
    });
    tasks.collect()
}

/// One task per thread, which updates a piece of U and then one of V.
fn pairs<'t>(of_u: Vec<Task<'t>>, of_v: Vec<Task<'t>>) -> impl Iterator<Item = Task<'t>> {
    let threads = of_u.len().max(of_v.len());
    let (mut of_u, mut of_v) = (of_u.into_iter(), of_v.into_iter());
    (0..threads).map(move |_| {
        let both = [of_u.next(), of_v.next()];
        Box::new(|| both.into_iter().flatten().for_each(|task| task())) as Task<'_>
    })
}

/// Update shared rows of a table.
fn shared_tasks<'t>(
    table: &'t mut Table,
    piece: Piece<'t>,
    addends: Addends<'t>,
    phase: Phase,
) -> impl Iterator<Item = Task<'t>> {
    if phase.rebalance {
        table.share_out_listed(phase.threads);
    }
    let table = &*table;
    table.cut(piece).into_iter().map(move |piece| {
        task(UpdateShared {
            addends,
            table,
            piece,
            update: phase.update,
        })
    })
}

/// What a share of a batch reads, and where it records its steps.
struct Share<'a> {
    /// Of queries and of documents.
    embeddings: [ShareEmbeddings<'a>; 2],
    buffers: &'a mut SampleBuffers,
    records: ShareRecords<'a>,
}
