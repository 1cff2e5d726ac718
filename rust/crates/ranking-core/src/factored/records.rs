//! The recorded steps of a batch, with what they read of rows that the batch changes.
//!
//! Values are recorded when a step is sampled, while they are in cache. So rows can be updated in
//! any order.

use crate::error::lengthen;
use crate::factored::occurrences::{ShareSteps, StepDocument, StepList};
use crate::factored::parameters::View;
use crate::factored::sums::{OfDocuments, OfQueries, Read, query_gradient};
use crate::simd::{Eight, Machine, Wide};

/// Steps of a batch, and by step what they read.
#[derive(Debug, Default)]
pub(super) struct StepRecords {
    pub(super) steps: StepList,
    /// If embeddings of queries are rows: a copy for each step.
    queries: Vec<Eight>,
    /// If embeddings of documents are rows: for each step, their sum times the slopes.
    gradients: Vec<Eight>,
    width: usize,
}

/// Where a share records its steps.
pub(super) struct ShareRecords<'a> {
    steps: ShareSteps<'a>,
    queries: Option<&'a mut [Eight]>,
    gradients: Option<&'a mut [Eight]>,
}

impl StepRecords {
    /// Begin a batch: `size` steps per share, the number of documents of each share, and
    /// embeddings of `width` registers.
    pub(super) fn begin(
        &mut self,
        size: usize,
        documents: &[usize],
        width: usize,
        is_plain: [bool; 2],
    ) -> Vec<ShareRecords<'_>> {
        self.width = width;
        let length = is_plain.map(|plain| documents.len() * size * width * usize::from(plain));
        lengthen(&mut self.queries, length[0], Eight::default());
        lengthen(&mut self.gradients, length[1], Eight::default());
        let mut queries = self.queries.chunks_mut((size * width).max(1));
        let mut gradients = self.gradients.chunks_mut((size * width).max(1));
        let shares = self.steps.shares(size, documents).into_iter();
        let records = shares.map(|steps| ShareRecords {
            steps,
            queries: queries.next(),
            gradients: gradients.next(),
        });
        records.collect()
    }

    /// The gradients of queries and those of documents; composed embeddings are in the views.
    pub(super) fn terms<'s>(
        &'s self,
        [queries, documents]: &'s [Vec<View<'s>>; 2],
    ) -> (OfQueries<'s>, OfDocuments<'s>) {
        let (steps, width) = (&self.steps, self.width);
        let read = |recorded: &'s [Eight], views| {
            if recorded.is_empty() {
                Read::Composed(views)
            } else {
                Read::Recorded { recorded, width }
            }
        };
        let (documents, queries) = (
            read(&self.gradients, documents),
            read(&self.queries, queries),
        );
        (
            OfQueries { steps, documents },
            OfDocuments { steps, queries },
        )
    }
}

impl ShareRecords<'_> {
    /// Record a step.
    #[inline(always)]
    pub(super) fn push<M: Machine>(
        &mut self,
        machine: M,
        views: [View<'_>; 2],
        query: u32,
        documents: impl Iterator<Item = (u32, f32)>,
    ) {
        let (place, documents) = self.steps.push(query, documents);
        let width = views[0].width;
        let places = place * width..(place + 1) * width;
        if let Some(queries) = &mut self.queries {
            queries[places.clone()].copy_from_slice(views[0].embedding(query as usize));
        }
        if let Some(gradients) = &mut self.gradients {
            let out = &mut gradients[places];
            if let [one, other] = documents {
                pair_gradient(machine, &views[1], [one, other], out);
                return;
            }
            for (at, out) in out.iter_mut().enumerate() {
                let [sum] = query_gradient(machine, documents, &views[1], at);
                *out = sum.array();
            }
        }
    }
}

/// The sum of two documents times their slopes.
#[inline(always)]
fn pair_gradient<M: Machine>(
    machine: M,
    documents: &View<'_>,
    pair: [&StepDocument; 2],
    out: &mut [Eight],
) {
    let a = Wide::splat(machine, pair[0].slope);
    let b = Wide::splat(machine, pair[1].slope);
    let [x, y] = pair.map(|document| documents.embedding(document.document as usize));
    for (out, (x, y)) in out.iter_mut().zip(x.iter().zip(y)) {
        *out = (a * Wide::new(machine, *x) + b * Wide::new(machine, *y)).array();
    }
}
