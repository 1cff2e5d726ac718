//! The steps of a batch, and in which of them a query or document occurs.

use std::ops::Range;

use crate::error::{filled, lengthen};
use crate::factored::sums::Terms;
use crate::matrix::short;

/// A step that is not zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) query: u32,
    /// The share that has its embeddings.
    pub(super) share: u32,
    /// The range of its documents.
    first: u32,
    end: u32,
}

/// A document of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepDocument {
    pub(super) document: u32,
    pub(super) step: u32,
    pub(super) slope: f32,
}

/// Steps that are not zero. Every share has a range of places, and fills the first ones.
#[derive(Debug, Default)]
pub(super) struct StepList {
    pub(super) steps: Vec<Step>,
    pub(super) documents: Vec<StepDocument>,
    pub(super) shares: Vec<Filled>,
}

/// Places that a share has filled: from the first to the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filled {
    pub(super) steps: [usize; 2],
    pub(super) documents: [usize; 2],
}

/// The places of a share.
pub(super) struct ShareSteps<'a> {
    pub(super) share: usize,
    steps: &'a mut [Step],
    documents: &'a mut [StepDocument],
    filled: &'a mut Filled,
}

impl StepList {
    /// Places for `size` steps of each share, and for so many documents of all its steps.
    pub(super) fn shares(&mut self, size: usize, counts: &[usize]) -> Vec<ShareSteps<'_>> {
        let mut end = 0;
        self.shares.clear();
        self.shares
            .extend(counts.iter().enumerate().map(|(share, count)| {
                let documents = [end; 2];
                end += count;
                Filled {
                    steps: [share * size; 2],
                    documents,
                }
            }));
        lengthen(&mut self.steps, counts.len() * size, Step::default());
        lengthen(&mut self.documents, end, StepDocument::default());
        let mut documents = &mut self.documents[..];
        let steps = self.steps.chunks_mut(size.max(1));
        let parts = self.shares.iter_mut().zip(steps).zip(counts).enumerate();
        let parts = parts.map(|(share, ((filled, steps), &count))| ShareSteps {
            share,
            steps,
            documents: documents.split_off_mut(..count).unwrap_or_default(),
            filled,
        });
        parts.collect()
    }

    /// The documents of a step.
    #[inline(always)]
    pub(super) fn documents_of(&self, step: Step) -> &[StepDocument] {
        &self.documents[step.first as usize..step.end as usize]
    }
}

impl ShareSteps<'_> {
    /// Add a step; return its place in the share, and its documents.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        query: u32,
        terms: impl Iterator<Item = (u32, f32)>,
    ) -> (usize, &[StepDocument]) {
        let Filled { steps, documents } = &mut *self.filled;
        let (step, first) = (short(steps[1]), short(documents[1]));
        let own = &mut self.documents[documents[1] - documents[0]..];
        let mut count = 0;
        for (place, (document, slope)) in own.iter_mut().zip(terms) {
            *place = StepDocument {
                document,
                step,
                slope,
            };
            count += 1;
        }
        documents[1] += count;
        let place = steps[1] - steps[0];
        self.steps[place] = Step {
            query,
            share: short(self.share),
            first,
            end: short(documents[1]),
        };
        steps[1] += 1;
        (place, &own[..count])
    }
}

/// Where a query or document occurs, and its next occurrence.
#[derive(Clone, Copy, Debug, Default)]
struct Occurrence {
    entity: u32,
    at: u32,
    next: u32,
}

/// Queries, or documents, of a batch in order of appearance, and the occurrences of each.
#[derive(Debug, Default)]
pub(super) struct OccurrenceIndex {
    /// For each the batch in which it was last seen, and its position in `entities`.
    marks: Vec<[u32; 2]>,
    batch: u32,
    entities: Vec<u32>,
    count: usize,
    /// The first and the last occurrence of each.
    ends: Vec<[u32; 2]>,
    occurrences: Vec<Occurrence>,
    end_mark: u32,
}

impl OccurrenceIndex {
    pub(super) fn new(n_entities: usize) -> Self {
        Self {
            marks: filled(n_entities, [0; 2]),
            ..Self::default()
        }
    }

    /// Index the occurrences of those in a range, instead of the last batch. There is no branch
    /// that depends on their numbers, because it could not be predicted.
    pub(super) fn build(&mut self, all: &impl Terms, range: Range<usize>) {
        let most = all.count();
        // One more, which is written but does not count.
        lengthen(&mut self.occurrences, most + 1, Occurrence::default());
        lengthen(&mut self.entities, most + 1, 0);
        lengthen(&mut self.ends, most + 1, [0; 2]);
        let (occurrences, mut count) = (&mut self.occurrences[..=most], 0);
        all.for_each(
            #[inline(always)]
            |entity, at| {
                occurrences[count] = Occurrence {
                    entity,
                    at: short(at),
                    next: 0,
                };
                let is_here = (entity as usize).wrapping_sub(range.start) < range.len();
                count += usize::from(is_here);
            },
        );
        self.end_mark = short(count);
        self.chain(count);
    }

    /// Chain the occurrences of each query or document.
    fn chain(&mut self, count: usize) {
        if self.batch == u32::MAX {
            self.marks.fill([0; 2]);
            self.batch = 0;
        }
        self.batch += 1;
        let occurrences = &mut self.occurrences[..=count];
        let mut entities = 0;
        for number in 0..self.end_mark {
            let entity = occurrences[number as usize].entity;
            let mark = &mut self.marks[entity as usize];
            let is_new = mark[0] != self.batch;
            let place = if is_new { entities } else { mark[1] };
            *mark = [self.batch, place];
            let place = place as usize;
            let ends = &mut self.ends[place];
            let before = if is_new { count } else { ends[1] as usize };
            *ends = [if is_new { number } else { ends[0] }, number];
            self.entities[place] = entity;
            occurrences[before].next = number;
            occurrences[number as usize].next = self.end_mark;
            entities += u32::from(is_new);
        }
        self.count = entities as usize;
    }

    /// The queries or documents.
    #[inline(always)]
    pub(super) fn entities(&self) -> &[u32] {
        &self.entities[..self.count]
    }

    /// The occurrences of the one in a slot, in order: the first, and the later ones.
    #[inline(always)]
    pub(super) fn occurrences(&self, slot: usize) -> (usize, Later<'_>) {
        let first = self.occurrences[self.ends[slot][0] as usize];
        let later = Later {
            all: &self.occurrences[..self.end_mark as usize],
            at: first.next,
        };
        (first.at as usize, later)
    }
}

/// The occurrences of a query or document after its first.
pub(super) struct Later<'a> {
    all: &'a [Occurrence],
    at: u32,
}

impl Later<'_> {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.at as usize >= self.all.len()
    }
}

impl Iterator for Later<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let occurrence = self.all.get(self.at as usize)?;
        self.at = occurrence.next;
        Some(occurrence.at as usize)
    }
}
