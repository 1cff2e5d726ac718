//! The steps of a block, and in which of them an object occurs.

use crate::bilinear::{Failure, filled};

const NOWHERE: u32 = u32::MAX;

/// Steps that are not zero.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The query of each step.
    pub(super) queries: Vec<u32>,
    /// Who holds its vectors.
    pub(super) shares: Vec<u32>,
    /// Where the documents of each step end.
    ends: Vec<u32>,
    /// The documents of all steps, one after the other.
    pub(super) documents: Vec<u32>,
    /// The slope of each.
    pub(super) slopes: Vec<f32>,
    /// The step of each.
    pub(super) steps: Vec<u32>,
}

impl Listing {
    pub(super) fn clear(&mut self) {
        self.queries.clear();
        self.shares.clear();
        self.ends.clear();
        self.documents.clear();
        self.slopes.clear();
        self.steps.clear();
    }

    /// Make room for so many steps, and documents of all of them.
    pub(super) fn reserve(&mut self, steps: usize, documents: usize) -> Result<(), Failure> {
        self.queries.try_reserve(steps)?;
        self.shares.try_reserve(steps)?;
        self.ends.try_reserve(steps)?;
        self.documents.try_reserve(documents)?;
        self.slopes.try_reserve(documents)?;
        self.steps.try_reserve(documents)?;
        Ok(())
    }

    /// Add a step.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        query: u32,
        share: usize,
        documents: impl Iterator<Item = (u32, f32)>,
    ) {
        let step = short(self.queries.len());
        self.queries.push(query);
        self.shares.push(short(share));
        for (document, slope) in documents {
            self.documents.push(document);
            self.slopes.push(slope);
            self.steps.push(step);
        }
        self.ends.push(short(self.documents.len()));
    }

    /// The documents of a step.
    #[inline(always)]
    pub(super) fn documents_of(&self, step: usize) -> Range {
        let start = if step == 0 { 0 } else { self.ends[step - 1] };
        start as usize..self.ends[step] as usize
    }
}

impl Listing {
    /// The steps that a share holds, and their documents.
    pub(super) fn of_share(&self, share: usize) -> (Range, Range) {
        let start = self
            .shares
            .partition_point(|&other| (other as usize) < share);
        let end = self
            .shares
            .partition_point(|&other| other as usize <= share);
        let place = |step: usize| {
            if step == 0 {
                0
            } else {
                self.ends[step - 1] as usize
            }
        };
        (start..end, place(start)..place(end))
    }
}

type Range = std::ops::Range<usize>;

/// The objects of a block, in the order in which they come, and where each occurs.
#[derive(Debug)]
pub(super) struct Registry {
    /// Where an object is in `objects`.
    slots: Vec<u32>,
    pub(super) objects: Vec<u32>,
    /// The first and the last occurrence of each.
    ends: Vec<[u32; 2]>,
    /// The next occurrence of the same object.
    next: Vec<u32>,
}

impl Registry {
    pub(super) fn new(n_objects: usize) -> Result<Self, Failure> {
        Ok(Self {
            slots: filled(n_objects, NOWHERE)?,
            objects: Vec::new(),
            ends: Vec::new(),
            next: Vec::new(),
        })
    }

    /// List objects, in place of those of the last block.
    pub(super) fn list(&mut self, occurrences: &[u32]) -> Result<(), Failure> {
        for &object in &self.objects {
            self.slots[object as usize] = NOWHERE;
        }
        self.objects.clear();
        self.ends.clear();
        self.next.clear();
        self.objects.try_reserve(occurrences.len())?;
        self.ends.try_reserve(occurrences.len())?;
        self.next.try_reserve(occurrences.len())?;
        for (&object, at) in occurrences.iter().zip(0..) {
            let slot = &mut self.slots[object as usize];
            self.next.push(NOWHERE);
            if *slot == NOWHERE {
                *slot = short(self.objects.len());
                self.objects.push(object);
                self.ends.push([at, at]);
            } else {
                let [_, last] = &mut self.ends[*slot as usize];
                self.next[*last as usize] = at;
                *last = at;
            }
        }
        Ok(())
    }

    /// The occurrences of the object in a slot, in order: the first, and those behind it.
    #[inline(always)]
    pub(super) fn occurrences(&self, slot: usize) -> (usize, Later<'_>) {
        let first = self.ends[slot][0] as usize;
        let later = Later {
            next: &self.next,
            at: self.next[first],
        };
        (first, later)
    }
}

/// The occurrences of an object behind its first.
pub(super) struct Later<'a> {
    next: &'a [u32],
    at: u32,
}

impl Iterator for Later<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let at = self.at as usize;
        self.at = *self.next.get(at)?;
        Some(at)
    }
}

#[inline(always)]
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(NOWHERE)
}
