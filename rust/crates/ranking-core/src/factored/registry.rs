//! The steps of a block, and in which of them an object occurs.

use crate::bilinear::{Failure, filled, lengthen};

/// A step that is not zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) query: u32,
    /// Who holds its vectors.
    pub(super) share: u32,
    /// Its pulls are those from the first to the end.
    first: u32,
    end: u32,
}

/// A document of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pull {
    pub(super) document: u32,
    pub(super) step: u32,
    pub(super) slope: f32,
}

/// Steps that are not zero. Every share has places of its own, of which it fills the first ones.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) steps: Vec<Step>,
    pub(super) pulls: Vec<Pull>,
    shares: Vec<Filled>,
}

/// Places that a share has filled.
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    steps: [usize; 2],
    pulls: [usize; 2],
}

/// A share's places.
pub(super) struct Part<'a> {
    pub(super) share: usize,
    steps: &'a mut [Step],
    pulls: &'a mut [Pull],
    filled: &'a mut Filled,
}

impl Listing {
    /// Places for so many steps of each share, and for so many pulls of all its steps.
    pub(super) fn parts(
        &mut self,
        size: usize,
        pulls: impl ExactSizeIterator<Item = usize>,
    ) -> Result<Vec<Part<'_>>, Failure> {
        self.shares.clear();
        self.shares.try_reserve(pulls.len())?;
        let mut end = 0;
        for (share, count) in pulls.enumerate() {
            self.shares.push(Filled {
                steps: [share * size; 2],
                pulls: [end; 2],
            });
            end += count;
        }
        lengthen(&mut self.steps, self.shares.len() * size, Step::default())?;
        lengthen(&mut self.pulls, end, Pull::default())?;
        let mut rest = &mut self.pulls[..end];
        let ends: Vec<_> = self.shares.iter().map(|filled| filled.pulls[0]).collect();
        let ends = ends[1..].iter().copied().chain([end]);
        let steps = self.steps.chunks_mut(size.max(1));
        let parts = self.shares.iter_mut().zip(steps).zip(ends).enumerate();
        let parts = parts.map(|(share, ((filled, steps), end))| {
            let (pulls, later) = std::mem::take(&mut rest).split_at_mut(end - filled.pulls[0]);
            rest = later;
            Part {
                share,
                steps,
                pulls,
                filled,
            }
        });
        Ok(parts.collect())
    }

    /// The pulls of a step.
    #[inline(always)]
    pub(super) fn pulls_of(&self, step: Step) -> &[Pull] {
        &self.pulls[step.first as usize..step.end as usize]
    }

    /// The places of all steps, share by share.
    pub(super) fn step_places(&self) -> impl Iterator<Item = Range> {
        let places = self.shares.iter().map(|filled| filled.steps);
        places.map(|[first, end]| first..end)
    }

    /// The places of all pulls, share by share.
    pub(super) fn pull_places(&self) -> impl Iterator<Item = Range> {
        let places = self.shares.iter().map(|filled| filled.pulls);
        places.map(|[first, end]| first..end)
    }

    /// How many pulls there are.
    pub(super) fn n_pulls(&self) -> usize {
        self.pull_places().map(|places| places.len()).sum()
    }
}

impl Part<'_> {
    /// Add a step; return its place among the share's, and its pulls.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        query: u32,
        documents: impl Iterator<Item = (u32, f32)>,
    ) -> (usize, &[Pull]) {
        let Filled { steps, pulls } = &mut *self.filled;
        let (step, first) = (short(steps[1]), short(pulls[1]));
        let own = &mut self.pulls[pulls[1] - pulls[0]..];
        let mut count = 0;
        for (place, (document, slope)) in own.iter_mut().zip(documents) {
            *place = Pull {
                document,
                step,
                slope,
            };
            count += 1;
        }
        pulls[1] += count;
        let place = steps[1] - steps[0];
        self.steps[place] = Step {
            query,
            share: short(self.share),
            first,
            end: short(pulls[1]),
        };
        steps[1] += 1;
        (place, &own[..count])
    }
}

pub(super) type Range = std::ops::Range<usize>;

/// Where an object occurs, and its next occurrence.
#[derive(Clone, Copy, Debug, Default)]
struct Occurrence {
    object: u32,
    at: u32,
    next: u32,
}

/// Objects of a block, in the order in which they come, and where each occurs.
#[derive(Debug)]
pub(super) struct Registry {
    /// For each object the block in which it was last seen, and where it is in `objects`.
    marks: Vec<[u32; 2]>,
    block: u32,
    objects: Vec<u32>,
    count: usize,
    /// The first and the last occurrence of each.
    ends: Vec<[u32; 2]>,
    occurrences: Vec<Occurrence>,
    nowhere: u32,
}

impl Registry {
    pub(super) fn new(n_objects: usize) -> Result<Self, Failure> {
        Ok(Self {
            marks: filled(n_objects, [0; 2])?,
            block: 0,
            objects: Vec::new(),
            count: 0,
            ends: Vec::new(),
            occurrences: Vec::new(),
            nowhere: 0,
        })
    }

    /// List those of some occurrences that are of objects in a range, in place of those of the
    /// last block. No branch depends on the objects, as nobody could predict it.
    pub(super) fn list(&mut self, all: &impl Occurrences, range: Range) -> Result<(), Failure> {
        let most = all.count();
        // One more, which is written but does not count.
        lengthen(&mut self.occurrences, most + 1, Occurrence::default())?;
        lengthen(&mut self.objects, most + 1, 0)?;
        lengthen(&mut self.ends, most + 1, [0; 2])?;
        let (occurrences, mut count) = (&mut self.occurrences[..=most], 0);
        all.for_each(
            #[inline(always)]
            |object, at| {
                occurrences[count] = Occurrence {
                    object,
                    at: short(at),
                    next: 0,
                };
                let is_here = (object as usize).wrapping_sub(range.start) < range.len();
                count += usize::from(is_here);
            },
        );
        self.nowhere = short(count);
        self.chain(count);
        Ok(())
    }

    /// Chain the occurrences of each object.
    fn chain(&mut self, count: usize) {
        if self.block == u32::MAX {
            self.marks.fill([0; 2]);
            self.block = 0;
        }
        self.block += 1;
        let occurrences = &mut self.occurrences[..=count];
        let mut objects = 0;
        for number in 0..self.nowhere {
            let object = occurrences[number as usize].object;
            let mark = &mut self.marks[object as usize];
            let is_new = mark[0] != self.block;
            let place = if is_new { objects } else { mark[1] };
            *mark = [self.block, place];
            let place = place as usize;
            let ends = &mut self.ends[place];
            let before = if is_new { count } else { ends[1] as usize };
            *ends = [if is_new { number } else { ends[0] }, number];
            self.objects[place] = object;
            occurrences[before].next = number;
            occurrences[number as usize].next = self.nowhere;
            objects += u32::from(is_new);
        }
        self.count = objects as usize;
    }

    /// The objects.
    #[inline(always)]
    pub(super) fn objects(&self) -> &[u32] {
        &self.objects[..self.count]
    }

    /// The occurrences of the object in a slot, in order: the first, and those behind it.
    #[inline(always)]
    pub(super) fn occurrences(&self, slot: usize) -> (usize, Later<'_>) {
        let first = self.occurrences[self.ends[slot][0] as usize];
        let later = Later {
            all: &self.occurrences[..self.nowhere as usize],
            at: first.next,
        };
        (first.at as usize, later)
    }
}

/// Where objects occur.
pub(super) trait Occurrences {
    /// How often.
    fn count(&self) -> usize;
    /// Give every object and the place where it occurs, in order.
    fn for_each(&self, take: impl FnMut(u32, usize));
}

/// The occurrences of an object behind its first.
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
        let found = self.all.get(self.at as usize)?;
        self.at = found.next;
        Some(found.at as usize)
    }
}

#[inline(always)]
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
