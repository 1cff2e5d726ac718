//! The recorded steps of a batch, with what they read of rows that the batch changes.
//!
//! Values are recorded when a step is sampled, while they are in cache. So rows can be updated in
//! any order.

use crate::error::{Error, lengthen};
use crate::factored::occurrences::{ShareSteps, StepDocument, StepList};
use crate::factored::parameters::View;
use crate::factored::sums::{Read, query_gradient};
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
        documents: impl ExactSizeIterator<Item = usize>,
        width: usize,
        is_plain: [bool; 2],
    ) -> Result<Vec<ShareRecords<'_>>, Error> {
        self.width = width;
        let length = |is_plain: bool| documents.len() * size * width * usize::from(is_plain);
        lengthen(&mut self.queries, length(is_plain[0]), Eight::default())?;
        lengthen(&mut self.gradients, length(is_plain[1]), Eight::default())?;
        let mut queries = self.queries.chunks_mut((size * width).max(1));
        let mut gradients = self.gradients.chunks_mut((size * width).max(1));
        let shares = self.steps.shares(size, documents)?.into_iter();
        let records = shares.map(|steps| ShareRecords {
            steps,
            queries: queries.next(),
            gradients: gradients.next(),
        });
        Ok(records.collect())
    }

    /// What steps read of queries; composed embeddings are in the views.
    pub(super) fn queries<'s>(&'s self, views: &'s [View<'s>]) -> Read<'s> {
        self.read(&self.queries, views)
    }

    /// What steps read of documents.
    pub(super) fn documents<'s>(&'s self, views: &'s [View<'s>]) -> Read<'s> {
        self.read(&self.gradients, views)
    }

    fn read<'s>(&self, recorded: &'s [Eight], views: &'s [View<'s>]) -> Read<'s> {
        let width = self.width;
        if recorded.is_empty() {
            Read::Composed(views)
        } else {
            Read::Recorded { recorded, width }
        }
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
