//! Gradients of objects, added up over the steps of a block.

use crate::factored::parameters::View;
use crate::factored::registry::{Listing, Registry};
use crate::lanes::Machine;
use crate::wide::{Eight, Wide};

/// Registers that are added up at a time: they and their squares stay registers.
pub(super) const GROUP: usize = 4;

/// The gradients of the occurrences of objects.
pub(super) trait Terms {
    /// N registers, from the one at `first`, of the gradient of an occurrence.
    fn term<M: Machine, const N: usize>(
        &self,
        machine: M,
        occurrence: usize,
        first: usize,
    ) -> [Wide<M>; N];

    /// The gradient of the bias.
    fn slope(&self, occurrence: usize) -> f32;
}

/// An occurrence of a query is a step.
#[derive(Clone, Copy)]
pub(super) struct OfQueries<'a> {
    pub(super) listing: &'a Listing,
    /// By share.
    pub(super) documents: &'a [View<'a>],
}

/// An occurrence of a document is a place in the list of all.
#[derive(Clone, Copy)]
pub(super) struct OfDocuments<'a> {
    pub(super) listing: &'a Listing,
    /// By share.
    pub(super) queries: &'a [View<'a>],
}

#[inline(always)]
fn times<M: Machine, const N: usize>(
    machine: M,
    factor: f32,
    vector: &[Eight],
    first: usize,
) -> [Wide<M>; N] {
    let factor = Wide::splat(machine, factor);
    let vector: &[Eight; N] = vector[first..].first_chunk().unwrap_or(&[[0.0; 8]; N]);
    vector.map(
        #[inline(always)]
        |x| factor * Wide::new(machine, x),
    )
}

impl OfQueries<'_> {
    /// What one document of a step adds to the gradient of its query.
    #[inline(always)]
    fn pull<M: Machine, const N: usize>(
        &self,
        machine: M,
        step: usize,
        at: usize,
        first: usize,
    ) -> [Wide<M>; N] {
        let view = &self.documents[self.listing.shares[step] as usize];
        let v = view.vector(self.listing.documents[at] as usize);
        times(machine, self.listing.slopes[at], v, first)
    }
}

impl Terms for OfQueries<'_> {
    #[inline(always)]
    fn term<M: Machine, const N: usize>(
        &self,
        machine: M,
        step: usize,
        first: usize,
    ) -> [Wide<M>; N] {
        let mut places = self.listing.documents_of(step);
        let first_place = places.next().unwrap_or(0);
        let mut total = self.pull(machine, step, first_place, first);
        for at in places {
            for (total, pull) in total
                .iter_mut()
                .zip(self.pull::<M, N>(machine, step, at, first))
            {
                *total += pull;
            }
        }
        total
    }

    #[inline(always)]
    fn slope(&self, _: usize) -> f32 {
        0.0
    }
}

impl Terms for OfDocuments<'_> {
    #[inline(always)]
    fn term<M: Machine, const N: usize>(
        &self,
        machine: M,
        occurrence: usize,
        first: usize,
    ) -> [Wide<M>; N] {
        let step = self.listing.steps[occurrence] as usize;
        let view = &self.queries[self.listing.shares[step] as usize];
        let u = view.vector(self.listing.queries[step] as usize);
        times(machine, self.slope(occurrence), u, first)
    }

    #[inline(always)]
    fn slope(&self, occurrence: usize) -> f32 {
        self.listing.slopes[occurrence]
    }
}

/// Gradients added up, and their squares.
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

/// Objects of a block with their gradients.
pub(super) struct Gradients<'a, T> {
    pub(super) registry: &'a Registry,
    pub(super) terms: T,
}

impl<T: Terms> Gradients<'_, T> {
    /// N registers of the sums of the object in a slot, from the one at `first`.
    #[inline(always)]
    pub(super) fn total<M: Machine, const N: usize>(
        &self,
        machine: M,
        slot: usize,
        first: usize,
    ) -> Total<[Wide<M>; N]> {
        let (at, later) = self.registry.occurrences(slot);
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
        let (at, later) = self.registry.occurrences(slot);
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
fn squared<M: Machine, const N: usize>(term: [Wide<M>; N]) -> [Wide<M>; N] {
    term.map(
        #[inline(always)]
        |y| y * y,
    )
}

/// Sums of consecutive slots, where features have to share them.
pub(super) struct Sum<'a, 'o, T> {
    pub(super) gradients: &'a Gradients<'a, T>,
    pub(super) first: usize,
    /// Registers of a vector.
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
