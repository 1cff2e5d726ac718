//! The phases of a batch, and the state between batches.

use crate::dispatch::{Job, dispatch};
use crate::error::{Error, lengthen};
use crate::factored::occurrences::OccurrenceIndex;
use crate::factored::parameters::{FactoredFeatures, FactoredState, Factors, Side};
use crate::factored::records::{ShareRecords, StepRecords};
use crate::factored::rows::{Addends, Piece, RowUpdate, UpdateOwn, UpdateShared};
use crate::factored::sample::{Sample, SampleBuffers, Samples, Slopes};
use crate::factored::share_embeddings::{BatchEmbeddings, ShareEmbeddings};
use crate::factored::sums::{Gradients, OfDocuments, OfQueries, Sum, Terms};
use crate::factored::tables::Table;
use crate::factored::train::FactoredSteps;
use crate::factored::transposed::EntityFeatures;
use crate::factored::triplets::TripletSource;
use crate::simd::{Eight, Machine};
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
type Task<'t> = Box<dyn FnOnce() -> Result<(), Error> + Send + 't>;

fn run(team: &ThreadTeam, tasks: Vec<Task<'_>>) -> Result<(), Error> {
    let tasks = tasks.into_iter().map(Some);
    team.try_for_each(tasks, |task| task.take().map_or(Ok(()), |task| task()))
}

/// A task that cannot fail.
fn task<'t>(job: impl Job<Output = ()> + Send + 't) -> Task<'t> {
    Box::new(|| {
        dispatch(job);
        Ok(())
    })
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
    fn new(side: &Side<'_>, threads: usize) -> Result<Self, Error> {
        let new = || OccurrenceIndex::new(side.first.features.len());
        if side.is_plain() {
            let indexes = (0..threads).map(|_| new());
            return Ok(Self::Own(indexes.collect::<Result<_, _>>()?));
        }
        Ok(Self::Shared(new()?))
    }

    /// Index those that share rows.
    fn build(&mut self, terms: &impl Terms) -> Result<(), Error> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Shared(index) => index.build(terms, 0..usize::MAX),
        }
    }

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
    fn tasks<'t, T: Terms + Send + 't>(
        &'t mut self,
        gradients: Gradients<'t, T>,
        width: usize,
        threads: usize,
    ) -> Result<impl Iterator<Item = Task<'t>>, Error> {
        let slots = gradients.index.entities().len();
        let size = slots.div_ceil(4 * threads).max(SMALLEST);
        lengthen(&mut self.both, slots * 2 * width, Eight::default())?;
        lengthen(&mut self.biases, slots, [0.0; 2])?;
        let both = self.both[..slots * 2 * width].chunks_mut(size * 2 * width);
        let outputs = both.zip(self.biases[..slots].chunks_mut(size)).enumerate();
        Ok(outputs.map(move |(share, (out, biases))| {
            task(Sum {
                gradients,
                first: share * size,
                width,
                out,
                biases,
            })
        }))
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
    queries: BatchEmbeddings,
    documents: BatchEmbeddings,
    records: StepRecords,
    /// Of queries and of documents.
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
    ) -> Result<Self, Error> {
        let shares = team.threads();
        let (queries, documents) = (
            factors.query_side(features),
            factors.document_side(features),
        );
        let shared_rows = |side: &Side<'_>| {
            let rows = side.first.features.n_features();
            if side.is_plain() { 0 } else { rows }
        };
        let contexts = features
            .contexts
            .map_or(0, |contexts| contexts.n_features());
        Ok(Self {
            features,
            team,
            shares,
            buffers: (0..shares).map(|_| SampleBuffers::default()).collect(),
            queries: BatchEmbeddings::new(&queries, size, shares)?,
            documents: BatchEmbeddings::new(
                &documents,
                size.saturating_mul(DOCUMENTS_READ),
                shares,
            )?,
            records: StepRecords::default(),
            indexes: [
                Indexes::new(&queries, shares)?,
                Indexes::new(&documents, shares)?,
            ],
            sums: [Sums::default(), Sums::default()],
            tables: [
                Table::new(shared_rows(&queries))?,
                Table::new(shared_rows(&documents))?,
                Table::new(contexts)?,
            ],
            is_plain: [queries.is_plain(), documents.is_plain()],
            updates: 0,
        })
    }

    /// Begin a batch: the parameters have changed.
    fn begin<'s>(&mut self, factors: Factors<'s>) -> Result<[Side<'s>; 2], Error>
    where
        'a: 's,
    {
        let queries = factors.query_side(self.features);
        let documents = factors.document_side(self.features);
        self.queries.begin(&queries, self.team)?;
        self.documents.begin(&documents, self.team)?;
        Ok([queries, documents])
    }

    /// Sample triplets; with `slopes`, record their steps.
    pub(super) fn sample(
        &mut self,
        factors: Factors<'_>,
        request: &Request<'_>,
        out: Samples<'_>,
        slopes: Option<Slopes<'_>>,
    ) -> Result<(), Error> {
        let Request {
            source,
            by_trial,
            first,
        } = *request;
        source.check_numbers(first..first + out.len(), self.features)?;
        let [queries, documents] = self.begin(factors)?;
        let size = out.len().div_ceil(self.shares).max(1);
        let mut steps: Vec<Option<(Slopes<'_>, ShareRecords<'_>)>> = Vec::new();
        if let Some(slopes) = slopes {
            let pairs = (0..self.shares).map(|_| 2 * size);
            let width = queries.width();
            let records = self.records.begin(size, pairs, width, self.is_plain)?;
            steps.extend(records.into_iter().enumerate().map(|(share, records)| {
                let mut learning_rates = slopes.learning_rates.chunks(size);
                let learning_rates = learning_rates.nth(share).unwrap_or_default();
                let slopes = Slopes {
                    learning_rates,
                    ..slopes
                };
                Some((slopes, records))
            }));
        } else {
            steps.resize_with(self.shares, || None);
        }
        let embeddings = self.queries.shares(self.shares).into_iter();
        let embeddings = embeddings.zip(self.documents.shares(self.shares));
        let shares = embeddings.zip(&mut self.buffers).zip(steps);
        let shares = out.chunks(size).zip(shares).enumerate();
        let tasks = shares.map(|(share, (out, ((embeddings, buffers), steps)))| {
            let sample = Sample {
                source,
                by_trial,
                queries,
                documents,
                query_embeddings: embeddings.0,
                document_embeddings: embeddings.1,
                first: first + share * size,
                out,
                buffers,
                steps,
            };
            Box::new(|| dispatch(sample)) as Task<'_>
        });
        run(self.team, tasks.collect())
    }

    /// Record known steps, and load their embeddings.
    pub(super) fn record(
        &mut self,
        factors: Factors<'_>,
        steps: &FactoredSteps<'_>,
    ) -> Result<(), Error> {
        let [queries, documents] = self.begin(factors)?;
        let size = steps.queries.len().div_ceil(self.shares).max(1);
        let shares: Vec<_> = (0..self.shares)
            .map(|share| steps.share(share, size))
            .collect();
        let counts = shares.iter().map(FactoredSteps::n_documents);
        let width = queries.width();
        let records = self.records.begin(size, counts, width, self.is_plain)?;
        let embeddings = self.queries.shares(self.shares).into_iter();
        let embeddings = embeddings.zip(self.documents.shares(self.shares));
        let shares = shares.iter().zip(records).zip(embeddings);
        let tasks = shares.map(|((steps, records), embeddings)| {
            let record = Record {
                steps,
                queries,
                documents,
                embeddings,
                records,
            };
            Box::new(|| dispatch(record)) as Task<'_>
        });
        run(self.team, tasks.collect())
    }

    /// Take the recorded steps.
    pub(super) fn update(
        &mut self,
        state: &mut FactoredState<'_>,
        update: RowUpdate,
    ) -> Result<(), Error> {
        let threads = self.team.threads();
        let rebalance = threads > 1 && self.updates.is_multiple_of(REBALANCE);
        let threads = rebalance.then_some(threads);
        self.updates += 1;
        self.build_indexes()?;
        self.sum_gradients(state, update, threads)?;
        if self.is_plain == [true; 2] {
            return Ok(());
        }
        self.update_shared(state, update, threads)
    }

    /// Index queries and documents that share rows.
    fn build_indexes(&mut self) -> Result<(), Error> {
        let steps = &self.records.steps;
        let of_queries = OfQueries::unread(steps);
        let of_documents = OfDocuments::unread(steps);
        let [queries, documents] = &mut self.indexes;
        if steps.n_documents() < FEW {
            documents.build(&of_documents)?;
            return queries.build(&of_queries);
        }
        let tasks: Vec<Task<'_>> = vec![
            Box::new(|| documents.build(&of_documents)),
            Box::new(|| queries.build(&of_queries)),
        ];
        run(self.team, tasks)
    }

    /// Sum gradients by query and document; rows of a single one are updated at once. With
    /// `threads`, rows are first shared out.
    fn sum_gradients(
        &mut self,
        state: &mut FactoredState<'_>,
        update: RowUpdate,
        threads: Option<usize>,
    ) -> Result<(), Error> {
        let (features, n_threads) = (self.features, self.team.threads());
        let width = state.factors.chunks * self.halves();
        let views = [&self.documents, &self.queries].map(|near| near.views(self.shares));
        let of_queries = OfQueries {
            steps: &self.records.steps,
            documents: self.records.documents(&views[0]),
        };
        let of_documents = OfDocuments {
            steps: &self.records.steps,
            queries: self.records.queries(&views[1]),
        };
        let [u, v, s] = &mut self.tables;
        let [query_indexes, document_indexes] = &mut self.indexes;
        let (own_queries, queries) = query_indexes.split();
        let (own_documents, documents) = document_indexes.split();
        let [u_rows, v_rows, _] = Piece::all(state);
        let of_u = own_jobs(u, own_queries, of_queries, u_rows, update, threads);
        let of_v = own_jobs(v, own_documents, of_documents, v_rows, update, threads);
        let mut tasks = Vec::new();
        if let (Some(contexts), Some(queries), Some(documents)) =
            (&features.contexts, queries, documents)
        {
            let of_contexts = EntityFeatures::new(contexts, queries);
            let of_documents = EntityFeatures::new(&features.documents, documents);
            let listed = &mut s.transposed;
            tasks.push(Box::new(move || listed.list(&[of_contexts, of_documents])) as Task<'_>);
        }
        let [query_sums, document_sums] = &mut self.sums;
        if let Some(index) = documents {
            let (terms, listed) = (of_documents, &mut v.transposed);
            let features = EntityFeatures::new(&features.documents, index);
            tasks.push(Box::new(move || listed.list(&[features])));
            tasks.extend(document_sums.tasks(Gradients { index, terms }, width, n_threads)?);
        }
        if let Some(index) = queries {
            let (terms, listed) = (of_queries, &mut u.transposed);
            let features = EntityFeatures::new(&features.queries, index);
            tasks.push(Box::new(move || listed.list(&[features])));
            tasks.extend(query_sums.tasks(Gradients { index, terms }, width, n_threads)?);
        }
        tasks.extend(pairs(of_u, of_v, n_threads));
        run(self.team, tasks)
    }

    /// Update the rows that queries, or documents, share.
    fn update_shared(
        &mut self,
        state: &mut FactoredState<'_>,
        update: RowUpdate,
        threads: Option<usize>,
    ) -> Result<(), Error> {
        let chunks = state.factors.chunks;
        let width = chunks * self.halves();
        let [u, v, s] = &mut self.tables;
        let [u_rows, v_rows, s_rows] = Piece::all(state);
        let [query_sums, document_sums] = &self.sums;
        let mut tasks = Vec::new();
        if let (Some(_), Indexes::Shared(queries)) = (self.features.contexts, &self.indexes[0]) {
            let addends = Addends {
                sums: [&query_sums.both, &document_sums.both],
                count: queries.entities().len(),
                biases: &[],
                width,
                start: chunks,
            };
            tasks.extend(shared_tasks(s, s_rows, addends, update, threads));
        }
        if !self.is_plain[1] {
            let addends = document_sums.addends(width);
            tasks.extend(shared_tasks(v, v_rows, addends, update, threads));
        }
        if !self.is_plain[0] {
            let addends = query_sums.addends(width);
            tasks.extend(shared_tasks(u, u_rows, addends, update, threads));
        }
        run(self.team, tasks)
    }

    /// Halves of an embedding.
    fn halves(&self) -> usize {
        1 + usize::from(self.features.contexts.is_some())
    }
}

/// Update rows of a single query or document, each piece with an index of its own; with `threads`,
/// rows are first shared out.
fn own_jobs<'t, T: Terms>(
    table: &mut Table,
    indexes: &'t mut [OccurrenceIndex],
    terms: T,
    piece: Piece<'t>,
    update: RowUpdate,
    threads: Option<usize>,
) -> Vec<UpdateOwn<'t, T>> {
    if indexes.is_empty() {
        return Vec::new();
    }
    if let Some(threads) = threads {
        table.share_out(&terms, threads);
    }
    let pieces = indexes.iter_mut().zip(table.cut(piece));
    let jobs = pieces.map(|(index, piece)| UpdateOwn {
        index,
        terms,
        piece,
        update,
    });
    jobs.collect()
}

/// One task per thread, which updates a piece of U and then one of V.
fn pairs<'t, A: Terms + Send + 't, B: Terms + Send + 't>(
    of_u: Vec<UpdateOwn<'t, A>>,
    of_v: Vec<UpdateOwn<'t, B>>,
    threads: usize,
) -> impl Iterator<Item = Task<'t>> {
    let (mut of_u, mut of_v) = (of_u.into_iter(), of_v.into_iter());
    (0..threads).map(move |_| {
        let (of_u, of_v) = (of_u.next(), of_v.next());
        Box::new(|| {
            of_u.map_or(Ok(()), dispatch)?;
            of_v.map_or(Ok(()), dispatch)
        }) as Task<'_>
    })
}

/// Update shared rows of a table; with `threads`, they are first shared out.
fn shared_tasks<'t>(
    table: &'t mut Table,
    piece: Piece<'t>,
    addends: Addends<'t>,
    update: RowUpdate,
    threads: Option<usize>,
) -> impl Iterator<Item = Task<'t>> {
    if let Some(threads) = threads {
        table.share_out_listed(threads);
    }
    let table = &*table;
    table.cut(piece).into_iter().map(move |piece| {
        task(UpdateShared {
            addends,
            transposed: &table.transposed,
            piece,
            update,
        })
    })
}

/// Load the embeddings that a share's steps need, and record these.
struct Record<'a> {
    steps: &'a FactoredSteps<'a>,
    queries: Side<'a>,
    documents: Side<'a>,
    embeddings: (ShareEmbeddings<'a>, ShareEmbeddings<'a>),
    records: ShareRecords<'a>,
}

impl Job for Record<'_> {
    type Output = Result<(), Error>;
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) -> Result<(), Error> {
        let (steps, (of_queries, of_documents)) = (self.steps, &mut self.embeddings);
        of_queries.load(machine, &self.queries, steps.queries())?;
        of_documents.load(machine, &self.documents, steps.documents())?;
        let views = [
            of_queries.view(&self.queries),
            of_documents.view(&self.documents),
        ];
        for (query, terms) in steps.iter() {
            self.records.push(machine, views, query, terms);
        }
        Ok(())
    }
}
