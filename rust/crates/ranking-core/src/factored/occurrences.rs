//! The steps of a batch, and in which of them a query or document occurs.

use crate::error::{Error, filled, lengthen};

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
    shares: Vec<Filled>,
}

/// Places that a share has filled.
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    steps: [usize; 2],
    documents: [usize; 2],
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
    pub(super) fn shares(
        &mut self,
        size: usize,
        documents: impl ExactSizeIterator<Item = usize>,
    ) -> Result<Vec<ShareSteps<'_>>, Error> {
        self.shares.clear();
        self.shares.try_reserve(documents.len())?;
        let mut end = 0;
        for (share, count) in documents.enumerate() {
            self.shares.push(Filled {
                steps: [share * size; 2],
                documents: [end; 2],
            });
            end += count;
        }
        lengthen(&mut self.steps, self.shares.len() * size, Step::default())?;
        lengthen(&mut self.documents, end, StepDocument::default())?;
        let mut rest = &mut self.documents[..end];
        let ends: Vec<_> = self
            .shares
            .iter()
            .map(|filled| filled.documents[0])
            .collect();
        let ends = ends[1..].iter().copied().chain([end]);
        let steps = self.steps.chunks_mut(size.max(1));
        let parts = self.shares.iter_mut().zip(steps).zip(ends).enumerate();
        let parts = parts.map(|(share, ((filled, steps), end))| {
            let (documents, later) =
                std::mem::take(&mut rest).split_at_mut(end - filled.documents[0]);
            rest = later;
            ShareSteps {
                share,
                steps,
                documents,
                filled,
            }
        });
        Ok(parts.collect())
    }

    /// The documents of a step.
    #[inline(always)]
    pub(super) fn documents_of(&self, step: Step) -> &[StepDocument] {
        &self.documents[step.first as usize..step.end as usize]
    }

    /// The places of all steps, share by share.
    pub(super) fn step_places(&self) -> impl Iterator<Item = Range> {
        let places = self.shares.iter().map(|filled| filled.steps);
        places.map(|[first, end]| first..end)
    }

    /// The places of all documents, share by share.
    pub(super) fn document_places(&self) -> impl Iterator<Item = Range> {
        let places = self.shares.iter().map(|filled| filled.documents);
        places.map(|[first, end]| first..end)
    }

    /// The number of documents of all steps.
    pub(super) fn n_documents(&self) -> usize {
        self.document_places().map(|places| places.len()).sum()
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

pub(super) type Range = std::ops::Range<usize>;

/// Where a query or document occurs, and its next occurrence.
#[derive(Clone, Copy, Debug, Default)]
struct Occurrence {
    entity: u32,
    at: u32,
    next: u32,
}

/// Queries, or documents, of a batch in order of appearance, and the occurrences of each.
#[derive(Debug)]
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
    pub(super) fn new(n_entities: usize) -> Result<Self, Error> {
        Ok(Self {
            marks: filled(n_entities, [0; 2])?,
            batch: 0,
            entities: Vec::new(),
            count: 0,
            ends: Vec::new(),
            occurrences: Vec::new(),
            end_mark: 0,
        })
    }

    /// Index the occurrences of those in a range, instead of the last batch. There is no branch
    /// that depends on their numbers, because it could not be predicted.
    pub(super) fn build(&mut self, all: &impl Occurrences, range: Range) -> Result<(), Error> {
        let most = all.count();
        // One more, which is written but does not count.
        lengthen(&mut self.occurrences, most + 1, Occurrence::default())?;
        lengthen(&mut self.entities, most + 1, 0)?;
        lengthen(&mut self.ends, most + 1, [0; 2])?;
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
        Ok(())
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

/// Queries, or documents, where they occur.
pub(super) trait Occurrences {
    /// The number of occurrences.
    fn count(&self) -> usize;
    /// Give every query or document and the place where it occurs, in order.
    fn for_each(&self, take: impl FnMut(u32, usize));
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

#[inline(always)]
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
