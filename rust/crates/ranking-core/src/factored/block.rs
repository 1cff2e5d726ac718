//! A block: what is kept from one to the next, and its phases.

use crate::bilinear::{Failure, lengthen};
use crate::dispatch::{Job, dispatch};
use crate::factored::nearby::{Near, Nearby};
use crate::factored::parameters::{Factors, Side, Sides, View};
use crate::factored::registry::{Listing, Registry};
use crate::factored::rows::{Addends, Change, ChangeOwn, ChangeShared, Piece};
use crate::factored::search::{Chosen, Room, Search};
use crate::factored::source::Trials;
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

/// Steps, and the objects that occur in them.
struct Lists {
    listing: Listing,
    queries: Registry,
    documents: Registry,
}

impl Lists {
    fn of_queries<'s>(&'s self, documents: &'s [View<'s>]) -> Gradients<'s, OfQueries<'s>> {
        Gradients {
            registry: &self.queries,
            terms: OfQueries {
                listing: &self.listing,
                documents,
            },
        }
    }

    fn of_documents<'s>(&'s self, queries: &'s [View<'s>]) -> Gradients<'s, OfDocuments<'s>> {
        Gradients {
            registry: &self.documents,
            terms: OfDocuments {
                listing: &self.listing,
                queries,
            },
        }
    }

    fn register(&mut self, crew: &Crew) -> Result<(), Failure> {
        let listing = &self.listing;
        if listing.documents.len() < FEW {
            self.documents.list(&listing.documents)?;
            return self.queries.list(&listing.queries);
        }
        let tasks: Vec<Task<'_>> = vec![
            Box::new(|| self.documents.list(&listing.documents)),
            Box::new(|| self.queries.list(&listing.queries)),
        ];
        run(crew, tasks)
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
    fn tasks<'t, T: Terms + Sync>(
        &'t mut self,
        gradients: &'t Gradients<'t, T>,
        width: usize,
        threads: usize,
    ) -> Result<Vec<Task<'t>>, Failure> {
        let slots = gradients.registry.objects.len();
        let size = slots.div_ceil(4 * threads).max(LEAST);
        lengthen(&mut self.both, slots * 2 * width, Eight::default())?;
        lengthen(&mut self.biases, slots, [0.0; 2])?;
        let both = self.both[..slots * 2 * width].chunks_mut(size * 2 * width);
        let outputs = both.zip(self.biases[..slots].chunks_mut(size)).enumerate();
        let tasks = outputs.map(|(share, (out, biases))| {
            task(Sum {
                gradients,
                first: share * size,
                width,
                out,
                biases,
            })
        });
        Ok(tasks.collect())
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
    lists: Lists,
    /// Of queries and of documents.
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
        let near_documents = if documents.is_plain() {
            Nearby::Plain
        } else {
            Nearby::new(&documents, size.saturating_mul(LOOKS), shares)?
        };
        Ok(Self {
            sides,
            crew,
            shares,
            rooms: (0..shares).map(|_| Room::default()).collect(),
            // Rows of U are copied: they change before those of V do, which need them.
            queries: Nearby::new(&queries, size, shares)?,
            documents: near_documents,
            lists: Lists {
                listing: Listing::default(),
                queries: Registry::new(sides.queries.len())?,
                documents: Registry::new(sides.documents.len())?,
            },
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

    /// Search the tuples from `first` on.
    pub(super) fn search(
        &mut self,
        factors: &Factors<'_>,
        trials: &Trials<'_>,
        by_trial: &[f32],
        first: usize,
        chosen: &mut [Chosen],
        margins: &mut [f32],
        weights: &mut [f32],
    ) -> Result<(), Failure> {
        trials.check_numbers(first..first + chosen.len(), self.sides)?;
        let queries = factors.query_side(self.sides);
        let documents = factors.document_side(self.sides);
        self.queries.begin(&queries, self.crew)?;
        self.documents.begin(&documents, self.crew)?;
        let size = chosen.len().div_ceil(self.shares).max(1);
        let near_queries = self.queries.shares(self.shares).into_iter();
        let near = near_queries.zip(self.documents.shares(self.shares));
        let outputs = margins.chunks_mut(size).zip(weights.chunks_mut(size));
        let outputs = chosen.chunks_mut(size).zip(outputs);
        let shares = outputs.zip(near.zip(&mut self.rooms)).enumerate();
        let tasks = shares.map(|(share, ((chosen, (margins, weights)), (near, room)))| {
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
            };
            Box::new(|| dispatch(search)) as Task<'_>
        });
        run(self.crew, tasks.collect())
    }

    /// List the steps of tuples that were searched; those whose slopes are 0 are none.
    pub(super) fn list_pairs(&mut self, chosen: &[Chosen], slopes: &[f32]) -> Result<(), Failure> {
        let size = chosen.len().div_ceil(self.shares).max(1);
        let listing = &mut self.lists.listing;
        listing.clear();
        listing.reserve(chosen.len(), 2 * chosen.len())?;
        let shares = chosen.chunks(size).zip(slopes.chunks(size)).enumerate();
        for (share, (chosen, slopes)) in shares {
            for (&[query, better, worse], &slope) in chosen.iter().zip(slopes) {
                if slope != 0.0 {
                    let documents = [(better, slope), (worse, -slope)];
                    listing.push(query, share, documents.into_iter());
                }
            }
        }
        Ok(())
    }

    /// List given steps, and have their vectors at hand.
    pub(super) fn list_steps<D: Iterator<Item = (u32, f32)>>(
        &mut self,
        factors: &Factors<'_>,
        count: (usize, usize),
        steps: impl Iterator<Item = (u32, D)>,
    ) -> Result<(), Failure> {
        let size = count.0.div_ceil(self.shares).max(1);
        let listing = &mut self.lists.listing;
        listing.clear();
        listing.reserve(count.0, count.1)?;
        for (number, (query, documents)) in steps.enumerate() {
            listing.push(query, number / size, documents);
        }
        let queries = factors.query_side(self.sides);
        let documents = factors.document_side(self.sides);
        self.queries.begin(&queries, self.crew)?;
        self.documents.begin(&documents, self.crew)?;
        let listing = &self.lists.listing;
        let near = self.queries.shares(self.shares).into_iter();
        let near = near.zip(self.documents.shares(self.shares)).enumerate();
        let tasks = near.map(|(share, near)| {
            let load = Load {
                listing,
                share,
                queries,
                documents,
                near,
            };
            Box::new(|| dispatch(load)) as Task<'_>
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
        self.lists.register(self.crew)?;
        let recut = self.crew.threads() > 1 && self.taken.is_multiple_of(RECUT);
        self.taken += 1;
        self.add_up(factors, squares, change, recut)?;
        self.change_rows(factors, squares, change, recut)
    }

    /// Add up gradients by object; queries that have rows of their own change these at once.
    fn add_up(
        &mut self,
        factors: &mut Factors<'_>,
        squares: &mut Factors<'_>,
        change: Change,
        recut: bool,
    ) -> Result<(), Failure> {
        let (sides, threads) = (self.sides, self.crew.threads());
        let width = self.width(factors.chunks);
        let document_views = self.documents.views(factors.v, width, self.shares);
        let query_views = self.queries.views(&[], width, self.shares);
        let of_queries = self.lists.of_queries(&document_views);
        let of_documents = self.lists.of_documents(&query_views);
        let of_their_features = Features {
            objects: &sides.documents,
            slots: &self.lists.documents.objects,
        };
        let [u, v, s] = &mut self.tables;
        let [query_sums, document_sums] = &mut self.sums;
        let mut tasks = Vec::new();
        if let Some(contexts) = &sides.contexts {
            let of_contexts = Features {
                objects: contexts,
                slots: &self.lists.queries.objects,
            };
            let listed = &mut s.transposed;
            tasks
                .push(Box::new(move || listed.list(&[of_contexts, of_their_features])) as Task<'_>);
        }
        if !self.is_plain[1] {
            let listed = &mut v.transposed;
            tasks.push(Box::new(move || listed.list(&[of_their_features])));
            tasks.extend(document_sums.tasks(&of_documents, width, threads)?);
        }
        if self.is_plain[0] {
            if recut {
                u.share_out(&self.lists.listing.queries, threads);
            }
            let piece = Piece::new(factors.u, squares.u, factors.chunks);
            tasks.extend(u.cut(piece).into_iter().map(|piece| {
                task(ChangeOwn {
                    gradients: &of_queries,
                    piece,
                    change,
                })
            }));
        } else {
            let features = Features {
                objects: &sides.queries,
                slots: &self.lists.queries.objects,
            };
            let listed = &mut u.transposed;
            tasks.push(Box::new(move || listed.list(&[features])));
            tasks.extend(query_sums.tasks(&of_queries, width, threads)?);
        }
        run(self.crew, tasks)
    }

    /// Change the rows that are left.
    fn change_rows(
        &mut self,
        factors: &mut Factors<'_>,
        squares: &mut Factors<'_>,
        change: Change,
        recut: bool,
    ) -> Result<(), Failure> {
        let (threads, chunks) = (self.crew.threads(), factors.chunks);
        let width = self.width(chunks);
        let query_views = self.queries.views(&[], width, self.shares);
        let of_documents = self.lists.of_documents(&query_views);
        let [u, v, s] = &mut self.tables;
        let [query_sums, document_sums] = &self.sums;
        let renewed = recut.then_some(threads);
        let mut tasks = Vec::new();
        if self.sides.contexts.is_some() {
            let addends = Addends {
                sums: [&query_sums.both, &document_sums.both],
                count: self.lists.queries.objects.len(),
                biases: &[],
                width,
                start: chunks,
            };
            let piece = Piece::new(factors.s, squares.s, chunks);
            tasks.extend(shared_tasks(s, piece, addends, change, renewed));
        }
        let piece = Piece {
            biases: factors.biases,
            bias_squares: squares.biases,
            ..Piece::new(factors.v, squares.v, chunks)
        };
        if self.is_plain[1] {
            if recut {
                v.share_out(&self.lists.listing.documents, threads);
            }
            tasks.extend(v.cut(piece).into_iter().map(|piece| {
                task(ChangeOwn {
                    gradients: &of_documents,
                    piece,
                    change,
                })
            }));
        } else {
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

/// Have the vectors at hand that a share's steps need.
struct Load<'a> {
    listing: &'a Listing,
    share: usize,
    queries: Side<'a>,
    documents: Side<'a>,
    near: (Near<'a>, Near<'a>),
}

impl Job for Load<'_> {
    type Output = Result<(), Failure>;
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) -> Result<(), Failure> {
        let (steps, documents) = self.listing.of_share(self.share);
        let wanted = self.listing.queries[steps].iter().copied();
        self.near.0.load(machine, &self.queries, wanted)?;
        let wanted = self.listing.documents[documents].iter().copied();
        self.near.1.load(machine, &self.documents, wanted)
    }
}
