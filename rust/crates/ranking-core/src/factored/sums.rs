//! Gradients of queries and documents, summed over the steps of a batch.

use crate::factored::occurrences::{Filled, OccurrenceIndex, StepDocument, StepList};
use crate::factored::parameters::View;
use crate::simd::{Eight, Machine, Wide};

/// Registers that are summed at a time: they and their squares stay in registers.
pub(super) const GROUP: usize = 4;

/// Queries, or documents, where they occur, and the gradients of occurrences.
pub(super) trait Terms: Copy + Send {
    /// The number of occurrences.
    fn count(&self) -> usize;

    /// Give every query or document and the place where it occurs, in order.
    fn for_each(&self, take: impl FnMut(u32, usize));

    /// N registers, from the one at `first`, of the gradient of an occurrence.
    fn term<M: Machine, const N: usize>(
        &self,
        machine: M,
        occurrence: usize,
        first: usize,
    ) -> [Wide<M>; N];

    /// The gradient of an occurrence as a number times `width` registers, if it has that form.
    fn scaled(&self, occurrence: usize, width: usize) -> Option<(f32, &[Eight])>;

    /// The gradient of the bias.
    fn slope(&self, occurrence: usize) -> f32;
}

/// What steps read of the other side.
#[derive(Clone, Copy)]
pub(super) enum Read<'a> {
    /// Recorded for each step, because the rows change.
    Recorded {
        /// By step.
        recorded: &'a [Eight],
        /// Registers of an embedding.
        width: usize,
    },
    /// Composed embeddings, by share.
    Composed(&'a [View<'a>]),
}

/// An occurrence of a query is a step.
#[derive(Clone, Copy)]
pub(super) struct OfQueries<'a> {
    pub(super) steps: &'a StepList,
    /// Their documents' embeddings; if recorded, the sum of these times the slopes.
    pub(super) documents: Read<'a>,
}

/// An occurrence of a document is a document of a step.
#[derive(Clone, Copy)]
pub(super) struct OfDocuments<'a> {
    pub(super) steps: &'a StepList,
    /// Their queries' embeddings.
    pub(super) queries: Read<'a>,
}

#[inline(always)]
fn some<const N: usize>(embedding: &[Eight], first: usize) -> &[Eight; N] {
    embedding[first..].first_chunk().unwrap_or(&[[0.0; 8]; N])
}

#[inline(always)]
pub(super) fn times<M: Machine, const N: usize>(
    machine: M,
    factor: f32,
    embedding: &[Eight],
    first: usize,
) -> [Wide<M>; N] {
    let factor = Wide::splat(machine, factor);
    some(embedding, first).map(
        #[inline(always)]
        |x| factor * Wide::new(machine, x),
    )
}

impl StepDocument {
    /// N registers of slope times embedding.
    #[inline(always)]
    fn term<M: Machine, const N: usize>(
        &self,
        machine: M,
        embeddings: &View<'_>,
        first: usize,
    ) -> [Wide<M>; N] {
        let v = embeddings.embedding(self.document as usize);
        times(machine, self.slope, v, first)
    }
}

/// N registers of the gradient of a step's query: the sum of slope times document.
#[inline(always)]
pub(super) fn query_gradient<M: Machine, const N: usize>(
    machine: M,
    documents: &[StepDocument],
    embeddings: &View<'_>,
    first: usize,
) -> [Wide<M>; N] {
    let mut total: [Wide<M>; N] = documents[0].term(machine, embeddings, first);
    for document in &documents[1..] {
        let term: [Wide<M>; N] = document.term(machine, embeddings, first);
        for (total, y) in total.iter_mut().zip(term) {
            *total += y;
        }
    }
    total
}

impl Terms for OfQueries<'_> {
    fn count(&self) -> usize {
        let shares = self.steps.shares.iter();
        shares.map(|share| share.steps[1] - share.steps[0]).sum()
    }

    #[inline(always)]
    fn for_each(&self, mut take: impl FnMut(u32, usize)) {
        for &Filled { steps, .. } in &self.steps.shares {
            let filled = self.steps.steps[steps[0]..steps[1]].iter();
            for (step, at) in filled.zip(steps[0]..) {
                take(step.query, at);
            }
        }
    }

    #[inline(always)]
    fn term<M: Machine, const N: usize>(
        &self,
        machine: M,
        step: usize,
        first: usize,
    ) -> [Wide<M>; N] {
        match self.documents {
            Read::Recorded { recorded, width } => some(&recorded[step * width..], first).map(
                #[inline(always)]
                |x| Wide::new(machine, x),
            ),
            Read::Composed(views) => {
                let step = self.steps.steps[step];
                let view = &views[step.share as usize];
                query_gradient(machine, self.steps.documents_of(step), view, first)
            }
        }
    }

    #[inline(always)]
    fn scaled(&self, step: usize, width: usize) -> Option<(f32, &[Eight])> {
        match self.documents {
            Read::Recorded { recorded, .. } => Some((1.0, &recorded[step * width..][..width])),
            Read::Composed(_) => None,
        }
    }

    #[inline(always)]
    fn slope(&self, _: usize) -> f32 {
        0.0
    }
}

impl<'a> OfDocuments<'a> {
    /// The slope of an occurrence, and where the embedding of its query begins.
    #[inline(always)]
    fn embedding(&self, occurrence: usize) -> (f32, &'a [Eight]) {
        let StepDocument { step, slope, .. } = self.steps.documents[occurrence];
        let u = match self.queries {
            Read::Recorded { recorded, width } => &recorded[step as usize * width..],
            Read::Composed(views) => {
                let step = self.steps.steps[step as usize];
                views[step.share as usize].embedding(step.query as usize)
            }
        };
        (slope, u)
    }
}

impl Terms for OfDocuments<'_> {
    fn count(&self) -> usize {
        let shares = self.steps.shares.iter();
        shares
            .map(|share| share.documents[1] - share.documents[0])
            .sum()
    }

    #[inline(always)]
    fn for_each(&self, mut take: impl FnMut(u32, usize)) {
        for &Filled { documents, .. } in &self.steps.shares {
            let filled = self.steps.documents[documents[0]..documents[1]].iter();
            for (document, at) in filled.zip(documents[0]..) {
                take(document.document, at);
            }
        }
    }

    #[inline(always)]
    fn term<M: Machine, const N: usize>(
        &self,
        machine: M,
        occurrence: usize,
        first: usize,
    ) -> [Wide<M>; N] {
        let (slope, u) = self.embedding(occurrence);
        times(machine, slope, u, first)
    }

    #[inline(always)]
    fn scaled(&self, occurrence: usize, width: usize) -> Option<(f32, &[Eight])> {
        let (slope, u) = self.embedding(occurrence);
        Some((slope, &u[..width]))
    }

    #[inline(always)]
    fn slope(&self, occurrence: usize) -> f32 {
        self.steps.documents[occurrence].slope
    }
}

/// Summed gradients, and summed squares of them.
#[derive(Clone, Copy)]
pub(super) struct Total<T> {
    pub(super) gradient: T,
    pub(super) squares: T,
}

impl<M: Machine, const N: usize> Total<[Wide<M>; N]> {
    #[inline(always)]
    pub(super) fn add(&mut self, gradient: [Wide<M>; N], squares: [Wide<M>; N]) {
        for (sum, x) in self.gradient.iter_mut().zip(gradient) {
            *sum += x;
        }
        for (sum, x) in self.squares.iter_mut().zip(squares) {
            *sum += x;
        }
    }
}

/// Queries, or documents, of a batch with their gradients.
#[derive(Clone, Copy)]
pub(super) struct Gradients<'a, T> {
    pub(super) index: &'a OccurrenceIndex,
    pub(super) terms: T,
}

impl<T: Terms> Gradients<'_, T> {
    /// N registers of the sums of the one in a slot, from the one at `first`.
    #[inline(always)]
    pub(super) fn total<M: Machine, const N: usize>(
        &self,
        machine: M,
        slot: usize,
        first: usize,
    ) -> Total<[Wide<M>; N]> {
        let (at, later) = self.index.occurrences(slot);
        let gradient = self.terms.term::<M, N>(machine, at, first);
        let mut total = Total {
            gradient,
            squares: squared(gradient),
        };
        for at in later {
            let term = self.terms.term::<M, N>(machine, at, first);
            total.add(term, squared(term));
        }
        total
    }

    /// The sums of the bias.
    #[inline(always)]
    pub(super) fn bias(&self, slot: usize) -> Total<f32> {
        let (at, later) = self.index.occurrences(slot);
        let gradient = self.terms.slope(at);
        let mut total = Total {
            gradient,
            squares: gradient * gradient,
        };
        for at in later {
            let slope = self.terms.slope(at);
            total.gradient += slope;
            total.squares += slope * slope;
        }
        total
    }
}

#[inline(always)]
pub(super) fn squared<M: Machine, const N: usize>(term: [Wide<M>; N]) -> [Wide<M>; N] {
    term.map(
        #[inline(always)]
        |y| y * y,
    )
}

/// Sums of consecutive slots, where features have to share them.
pub(super) struct Sum<'a, 'o, T> {
    pub(super) gradients: Gradients<'a, T>,
    pub(super) first: usize,
    /// Registers of an embedding.
    pub(super) width: usize,
    /// For each slot the sum of gradients, and behind it that of squares.
    pub(super) out: &'o mut [Eight],
    pub(super) biases: &'o mut [[f32; 2]],
}

impl<T: Terms> crate::dispatch::Job for Sum<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let lines = self.out.chunks_exact_mut(2 * self.width).zip(self.biases);
        for (slot, (line, bias)) in (self.first..).zip(lines) {
            let (gradient, squares) = line.split_at_mut(self.width);
            let mut first = 0;
            while first + GROUP <= self.width {
                let total = self.gradients.total::<M, GROUP>(machine, slot, first);
                write(&total, &mut gradient[first..], &mut squares[first..]);
                first += GROUP;
            }
            for first in first..self.width {
                let total = self.gradients.total::<M, 1>(machine, slot, first);
                write(&total, &mut gradient[first..], &mut squares[first..]);
            }
            let total = self.gradients.bias(slot);
            *bias = [total.gradient, total.squares];
        }
    }
}

#[inline(always)]
fn write<M: Machine, const N: usize>(
    total: &Total<[Wide<M>; N]>,
    gradient: &mut [Eight],
    squares: &mut [Eight],
) {
    for (out, sum) in gradient.iter_mut().zip(total.gradient) {
        *out = sum.array();
    }
    for (out, sum) in squares.iter_mut().zip(total.squares) {
        *out = sum.array();
    }
}
