//! The steps that a share of a block takes, and what they read of rows that the block changes.
//!
//! That is written down when a step is found, while it is near. So rows can change in any order.

use crate::bilinear::{Failure, lengthen};
use crate::factored::parameters::View;
use crate::factored::registry::{Listing, Part, Pull};
use crate::factored::sums::{Read, pull};
use crate::lanes::Machine;
use crate::wide::{Eight, Wide};

/// Steps of a block, and by step what they read.
#[derive(Debug, Default)]
pub(super) struct Notebook {
    pub(super) listing: Listing,
    /// Of plain queries: their vectors.
    queries: Vec<Eight>,
    /// Of plain documents: the sums of their vectors times the slopes.
    pulls: Vec<Eight>,
    width: usize,
}

/// Where a share writes its steps down.
pub(super) struct Notes<'a> {
    part: Part<'a>,
    queries: Option<&'a mut [Eight]>,
    pulls: Option<&'a mut [Eight]>,
}

impl Notebook {
    /// Begin with so many steps a share, which have so many documents, and with vectors of so many
    /// registers. Is each query, and each document, a row as it is?
    pub(super) fn begin(
        &mut self,
        size: usize,
        documents: impl ExactSizeIterator<Item = usize>,
        width: usize,
        is_plain: [bool; 2],
    ) -> Result<Vec<Notes<'_>>, Failure> {
        self.width = width;
        let length = |is_plain: bool| documents.len() * size * width * usize::from(is_plain);
        lengthen(&mut self.queries, length(is_plain[0]), Eight::default())?;
        lengthen(&mut self.pulls, length(is_plain[1]), Eight::default())?;
        let mut queries = self.queries.chunks_mut((size * width).max(1));
        let mut pulls = self.pulls.chunks_mut((size * width).max(1));
        let parts = self.listing.parts(size, documents)?.into_iter();
        let notes = parts.map(|part| Notes {
            part,
            queries: queries.next(),
            pulls: pulls.next(),
        });
        Ok(notes.collect())
    }

    /// What steps read of queries; of composed ones it is in the views.
    pub(super) fn queries<'s>(&'s self, views: &'s [View<'s>]) -> Read<'s> {
        self.read(&self.queries, views)
    }

    /// What steps read of documents.
    pub(super) fn documents<'s>(&'s self, views: &'s [View<'s>]) -> Read<'s> {
        self.read(&self.pulls, views)
    }

    fn read<'s>(&self, vectors: &'s [Eight], views: &'s [View<'s>]) -> Read<'s> {
        let width = self.width;
        if vectors.is_empty() {
            Read::Near(views)
        } else {
            Read::Frozen { vectors, width }
        }
    }
}

impl Notes<'_> {
    /// Write a step down.
    #[inline(always)]
    pub(super) fn take<M: Machine>(
        &mut self,
        machine: M,
        views: [View<'_>; 2],
        query: u32,
        documents: impl Iterator<Item = (u32, f32)>,
    ) {
        let (place, pulled) = self.part.push(query, documents);
        let width = views[0].width;
        let places = place * width..(place + 1) * width;
        if let Some(queries) = &mut self.queries {
            queries[places.clone()].copy_from_slice(views[0].vector(query as usize));
        }
        if let Some(pulls) = &mut self.pulls {
            let out = &mut pulls[places];
            if let [one, other] = pulled {
                mix(machine, &views[1], [one, other], out);
                return;
            }
            for (at, out) in out.iter_mut().enumerate() {
                let [sum] = pull(machine, pulled, &views[1], at);
                *out = sum.array();
            }
        }
    }
}

/// The sum of two documents times their slopes.
#[inline(always)]
fn mix<M: Machine>(machine: M, documents: &View<'_>, pulls: [&Pull; 2], out: &mut [Eight]) {
    let [a, b] = [pulls[0].slope, pulls[1].slope];
    let (a, b) = (Wide::splat(machine, a), Wide::splat(machine, b));
    let [x, y] = pulls.map(|pull| documents.vector(pull.document as usize));
    for (out, (x, y)) in out.iter_mut().zip(x.iter().zip(y)) {
        *out = (a * Wide::new(machine, *x) + b * Wide::new(machine, *y)).array();
    }
}
