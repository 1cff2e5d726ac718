//! A block: what is kept from one to the next, and its phases.

use crate::bilinear::{Failure, lengthen};
use crate::dispatch::{Job, dispatch};
use crate::factored::nearby::{Near, Nearby};
use crate::factored::notes::{Notebook, Notes};
use crate::factored::parameters::{Factors, Side, Sides};
use crate::factored::registry::Registry;
use crate::factored::rows::{Addends, Change, ChangeOwn, ChangeShared, Piece};
use crate::factored::search::{Chosen, Room, Search, Slopes};
use crate::factored::source::Trials;
use crate::factored::steps::Steps;
use crate::factored::sums::{Gradients, OfDocuments, OfQueries, Sum, Terms};
use crate::factored::tables::Table;
use crate::factored::transposed::Features;
use crate::lanes::Machine;
use crate::threads::Crew;
use crate::wide::Eight;

/// Blocks after which the rows are shared out anew.
const RECUT: usize = 64;
/// About so many documents of a tuple are looked at.
const LOOKS: usize = 4;
/// Mentions that one thread lists before another has come to help.
const FEW: usize = 4096;
/// Slots that are summed up at a time, at least.
const LEAST: usize = 64;

/// Work of a phase, for whichever thread is free.
type Task<'t> = Box<dyn FnOnce() -> Result<(), Failure> + Send + 't>;

fn run(crew: &Crew, tasks: Vec<Task<'_>>) -> Result<(), Failure> {
    let mut tasks: Vec<_> = tasks.into_iter().map(|task| (Some(task), Ok(()))).collect();
    crew.for_each(&mut tasks, |(task, result)| {
        if let Some(task) = task.take() {
            *result = task();
        }
    });
    tasks.into_iter().try_for_each(|(_, result)| result)
}

/// A task that cannot fail.
fn task<'t>(job: impl Job<Output = ()> + Send + 't) -> Task<'t> {
    Box::new(|| {
        dispatch(job);
        Ok(())
    })
}

/// Objects that occur in the steps.
#[derive(Debug)]
enum Lists {
    /// They have rows of their own, and are listed by who changes these.
    Own(Vec<Registry>),
    /// They share rows, and are listed together.
    Sharing(Registry),
}

impl Lists {
    fn new(side: &Side<'_>, threads: usize) -> Result<Self, Failure> {
        let new = || Registry::new(side.first.objects.len());
        if side.is_plain() {
            let lists = (0..threads).map(|_| new());
            return Ok(Self::Own(lists.collect::<Result<_, _>>()?));
        }
        Ok(Self::Sharing(new()?))
    }

    /// List objects that share rows.
    fn list(&mut self, terms: &impl Terms) -> Result<(), Failure> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Sharing(registry) => registry.list(terms, 0..usize::MAX),
        }
    }

    /// Where objects are listed by who changes their rows, and where they are listed together.
    fn split(&mut self) -> (&mut [Registry], Option<&Registry>) {
        match self {
            Self::Own(registries) => (registries, None),
            Self::Sharing(registry) => (&mut [], Some(registry)),
        }
    }
}

/// Sums of the gradients of objects, by slot.
#[derive(Debug, Default)]
struct Sums {
    both: Vec<Eight>,
    biases: Vec<[f32; 2]>,
}

impl Sums {
    /// Add up gradients, by shares of the slots.
    fn tasks<'t, T: Terms + Send + 't>(
        &'t mut self,
        gradients: Gradients<'t, T>,
        width: usize,
        threads: usize,
    ) -> Result<impl Iterator<Item = Task<'t>>, Failure> {
        let slots = gradients.registry.objects().len();
        let size = slots.div_ceil(4 * threads).max(LEAST);
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

/// All that is kept from block to block.
pub(super) struct Blocks<'a> {
    sides: &'a Sides<'a>,
    crew: &'a Crew,
    shares: usize,
    rooms: Vec<Room>,
    queries: Nearby,
    documents: Nearby,
    notebook: Notebook,
    /// Of queries and of documents.
    lists: [Lists; 2],
    sums: [Sums; 2],
    /// U, V and S.
    tables: [Table; 3],
    /// Is each query, and each document, a row as it is?
    is_plain: [bool; 2],
    taken: usize,
}

impl<'a> Blocks<'a> {
    /// Prepare for blocks of `size` tuples.
    pub(super) fn new(
        sides: &'a Sides<'a>,
        factors: &Factors<'_>,
        size: usize,
        crew: &'a Crew,
    ) -> Result<Self, Failure> {
        let shares = crew.threads();
        let (queries, documents) = (factors.query_side(sides), factors.document_side(sides));
        let shared = |side: &Side<'_>| {
            let rows = side.first.objects.features();
            if side.is_plain() { 0 } else { rows }
        };
        let s_rows = sides.contexts.map_or(0, |contexts| contexts.features());
        Ok(Self {
            sides,
            crew,
            shares,
            rooms: (0..shares).map(|_| Room::default()).collect(),
            queries: Nearby::new(&queries, size, shares)?,
            documents: Nearby::new(&documents, size.saturating_mul(LOOKS), shares)?,
            notebook: Notebook::default(),
            lists: [
                Lists::new(&queries, shares)?,
                Lists::new(&documents, shares)?,
            ],
            sums: [Sums::default(), Sums::default()],
            tables: [
                Table::new(shared(&queries))?,
                Table::new(shared(&documents))?,
                Table::new(s_rows)?,
            ],
            is_plain: [queries.is_plain(), documents.is_plain()],
            taken: 0,
        })
    }

    /// Search the tuples from `first` on; if it is said how, write their steps down.
    pub(super) fn search(
        &mut self,
        factors: &Factors<'_>,
        trials: &Trials<'_>,
        by_trial: &[f32],
        first: usize,
        chosen: &mut [Chosen],
        margins: &mut [f32],
        weights: &mut [f32],
        slopes: Option<Slopes<'_>>,
    ) -> Result<(), Failure> {
        trials.check_numbers(first..first + chosen.len(), self.sides)?;
        let queries = factors.query_side(self.sides);
        let documents = factors.document_side(self.sides);
        self.queries.begin(&queries, self.crew)?;
        self.documents.begin(&documents, self.crew)?;
        let size = chosen.len().div_ceil(self.shares).max(1);
        let mut steps: Vec<Option<(Slopes<'_>, Notes<'_>)>> = Vec::new();
        if let Some(slopes) = slopes {
            let pairs = (0..self.shares).map(|_| 2 * size);
            let width = queries.width();
            let notes = self.notebook.begin(size, pairs, width, self.is_plain)?;
            steps.extend(notes.into_iter().enumerate().map(|(share, notes)| {
                let rates = slopes.rates.chunks(size).nth(share).unwrap_or_default();
                Some((Slopes { rates, ..slopes }, notes))
            }));
        } else {
            steps.resize_with(self.shares, || None);
        }
        let near_queries = self.queries.shares(self.shares).into_iter();
        let near = near_queries.zip(self.documents.shares(self.shares));
        let outputs = margins.chunks_mut(size).zip(weights.chunks_mut(size));
        let outputs = chosen.chunks_mut(size).zip(outputs);
        let shares = near.zip(&mut self.rooms).zip(steps);
        let shares = outputs.zip(shares).enumerate();
        let tasks = shares.map(|(share, ((chosen, (margins, weights)), own))| {
            let ((near, room), steps) = own;
            let search = Search {
                trials,
                by_trial,
                queries,
                documents,
                near_queries: near.0,
                near_documents: near.1,
                first: first + share * size,
                chosen,
                margins,
                weights,
                room,
                steps,
            };
            Box::new(|| dispatch(search)) as Task<'_>
        });
        run(self.crew, tasks.collect())
    }

    /// Write given steps down, and have their vectors at hand.
    pub(super) fn note(&mut self, factors: &Factors<'_>, steps: &Steps<'_>) -> Result<(), Failure> {
        let queries = factors.query_side(self.sides);
        let documents = factors.document_side(self.sides);
        self.queries.begin(&queries, self.crew)?;
        self.documents.begin(&documents, self.crew)?;
        let size = steps.queries.len().div_ceil(self.shares).max(1);
        let shares: Vec<_> = (0..self.shares)
            .map(|share| steps.share(share, size))
            .collect();
        let counts = shares.iter().map(Steps::n_documents);
        let width = queries.width();
        let notes = self.notebook.begin(size, counts, width, self.is_plain)?;
        let near = self.queries.shares(self.shares).into_iter();
        let near = near.zip(self.documents.shares(self.shares));
        let tasks = shares
            .iter()
            .zip(notes)
            .zip(near)
            .map(|((steps, notes), near)| {
                let note = Note {
                    steps,
                    queries,
                    documents,
                    near,
                    notes,
                };
                Box::new(|| dispatch(note)) as Task<'_>
            });
        run(self.crew, tasks.collect())
    }

    /// Take the listed steps.
    pub(super) fn take(
        &mut self,
        factors: &mut Factors<'_>,
        squares: &mut Factors<'_>,
        change: Change,
    ) -> Result<(), Failure> {
        let recut = self.crew.threads() > 1 && self.taken.is_multiple_of(RECUT);
        self.taken += 1;
        self.register()?;
        self.add_up(factors, squares, change, recut)?;
        if self.is_plain == [true; 2] {
            return Ok(());
        }
        self.change_rows(factors, squares, change, recut)
    }

    /// List the objects that share rows.
    fn register(&mut self) -> Result<(), Failure> {
        let listing = &self.notebook.listing;
        let of_queries = OfQueries::unread(listing);
        let of_documents = OfDocuments::unread(listing);
        let [queries, documents] = &mut self.lists;
        if listing.n_pulls() < FEW {
            documents.list(&of_documents)?;
            return queries.list(&of_queries);
        }
        let tasks: Vec<Task<'_>> = vec![
            Box::new(|| documents.list(&of_documents)),
            Box::new(|| queries.list(&of_queries)),
        ];
        run(self.crew, tasks)
    }

    /// Add up gradients by object; rows that objects have for themselves change at once.
    fn add_up(
        &mut self,
        factors: &mut Factors<'_>,
        squares: &mut Factors<'_>,
        change: Change,
        recut: bool,
    ) -> Result<(), Failure> {
        let (sides, threads, chunks) = (self.sides, self.crew.threads(), factors.chunks);
        let width = self.width(chunks);
        let views = [&self.documents, &self.queries].map(|near| near.views(self.shares));
        let listing = &self.notebook.listing;
        let of_queries = OfQueries {
            listing,
            documents: self.notebook.documents(&views[0]),
        };
        let of_documents = OfDocuments {
            listing,
            queries: self.notebook.queries(&views[1]),
        };
        let [u, v, s] = &mut self.tables;
        let [query_lists, document_lists] = &mut self.lists;
        let (own_queries, queries) = query_lists.split();
        let (own_documents, documents) = document_lists.split();
        let renewed = recut.then_some(threads);
        let piece = Piece::new(factors.u, squares.u, chunks);
        let of_u = own_jobs(u, own_queries, of_queries, piece, change, renewed);
        let piece = Piece {
            biases: factors.biases,
            bias_squares: squares.biases,
            ..Piece::new(factors.v, squares.v, chunks)
        };
        let of_v = own_jobs(v, own_documents, of_documents, piece, change, renewed);
        let mut tasks = Vec::new();
        if let (Some(contexts), Some(queries), Some(documents)) =
            (&sides.contexts, queries, documents)
        {
            let of_contexts = Features::new(contexts, queries);
            let of_documents = Features::new(&sides.documents, documents);
            let listed = &mut s.transposed;
            tasks.push(Box::new(move || listed.list(&[of_contexts, of_documents])) as Task<'_>);
        }
        let [query_sums, document_sums] = &mut self.sums;
        if let Some(registry) = documents {
            let (terms, listed) = (of_documents, &mut v.transposed);
            let features = Features::new(&sides.documents, registry);
            tasks.push(Box::new(move || listed.list(&[features])));
            tasks.extend(document_sums.tasks(Gradients { registry, terms }, width, threads)?);
        }
        if let Some(registry) = queries {
            let (terms, listed) = (of_queries, &mut u.transposed);
            let features = Features::new(&sides.queries, registry);
            tasks.push(Box::new(move || listed.list(&[features])));
            tasks.extend(query_sums.tasks(Gradients { registry, terms }, width, threads)?);
        }
        let (mut of_u, mut of_v) = (of_u.into_iter(), of_v.into_iter());
        tasks.extend((0..threads).map(|_| {
            let (of_u, of_v) = (of_u.next(), of_v.next());
            Box::new(|| {
                of_u.map_or(Ok(()), dispatch)?;
                of_v.map_or(Ok(()), dispatch)
            }) as Task<'_>
        }));
        run(self.crew, tasks)
    }

    /// Change the rows that objects share.
    fn change_rows(
        &mut self,
        factors: &mut Factors<'_>,
        squares: &mut Factors<'_>,
        change: Change,
        recut: bool,
    ) -> Result<(), Failure> {
        let (threads, chunks) = (self.crew.threads(), factors.chunks);
        let width = self.width(chunks);
        let [u, v, s] = &mut self.tables;
        let [query_sums, document_sums] = &self.sums;
        let renewed = recut.then_some(threads);
        let mut tasks = Vec::new();
        if let (Some(_), Lists::Sharing(queries)) = (self.sides.contexts, &self.lists[0]) {
            let addends = Addends {
                sums: [&query_sums.both, &document_sums.both],
                count: queries.objects().len(),
                biases: &[],
                width,
                start: chunks,
            };
            let piece = Piece::new(factors.s, squares.s, chunks);
            tasks.extend(shared_tasks(s, piece, addends, change, renewed));
        }
        if !self.is_plain[1] {
            let piece = Piece {
                biases: factors.biases,
                bias_squares: squares.biases,
                ..Piece::new(factors.v, squares.v, chunks)
            };
            let addends = document_sums.addends(width);
            tasks.extend(shared_tasks(v, piece, addends, change, renewed));
        }
        if !self.is_plain[0] {
            let piece = Piece::new(factors.u, squares.u, chunks);
            let addends = query_sums.addends(width);
            tasks.extend(shared_tasks(u, piece, addends, change, renewed));
        }
        run(self.crew, tasks)
    }

    /// Registers of a vector.
    fn width(&self, chunks: usize) -> usize {
        chunks * if self.sides.contexts.is_some() { 2 } else { 1 }
    }
}

/// Change the rows of a table that objects have for themselves, each piece with a registry of its
/// own; they are first shared out among threads, if so many are given.
fn own_jobs<'t, T: Terms>(
    table: &mut Table,
    registries: &'t mut [Registry],
    terms: T,
    piece: Piece<'t>,
    change: Change,
    threads: Option<usize>,
) -> Vec<ChangeOwn<'t, T>> {
    if registries.is_empty() {
        return Vec::new();
    }
    if let Some(threads) = threads {
        table.share_out(&terms, threads);
    }
    let pieces = registries.iter_mut().zip(table.cut(piece));
    let jobs = pieces.map(|(registry, piece)| ChangeOwn {
        registry,
        terms,
        piece,
        change,
    });
    jobs.collect()
}

/// Change the rows of a table that objects share; they are first shared out among threads, if so
/// many are given.
fn shared_tasks<'t>(
    table: &'t mut Table,
    piece: Piece<'t>,
    addends: Addends<'t>,
    change: Change,
    threads: Option<usize>,
) -> impl Iterator<Item = Task<'t>> {
    if let Some(threads) = threads {
        table.share_out_listed(threads);
    }
    let table = &*table;
    table.cut(piece).into_iter().map(move |piece| {
        task(ChangeShared {
            addends,
            transposed: &table.transposed,
            piece,
            change,
        })
    })
}

/// Have the vectors at hand that a share's steps need, and write these down.
struct Note<'a> {
    steps: &'a Steps<'a>,
    queries: Side<'a>,
    documents: Side<'a>,
    near: (Near<'a>, Near<'a>),
    notes: Notes<'a>,
}

impl Job for Note<'_> {
    type Output = Result<(), Failure>;
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) -> Result<(), Failure> {
        let steps = self.steps;
        self.near.0.load(machine, &self.queries, steps.queries())?;
        self.near
            .1
            .load(machine, &self.documents, steps.documents())?;
        let queries = self.near.0.view(&self.queries);
        let documents = self.near.1.view(&self.documents);
        for (query, pulls) in steps.iter() {
            self.notes.take(machine, [queries, documents], query, pulls);
        }
        Ok(())
    }
}
