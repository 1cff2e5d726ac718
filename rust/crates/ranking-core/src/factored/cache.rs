//! Vectors of objects at the start of a block: each is composed once, when it is first wanted.

use crate::bilinear::{Failure, filled, lengthen};
use crate::dispatch::{Job, dispatch};
use crate::factored::objects::{Objects, compose};
use crate::factored::parameters::{Half, Side, View};
use crate::lanes::Machine;
use crate::threads::Crew;
use crate::wide::Eight;

/// Objects that are composed together.
const TOGETHER: usize = 32;
/// Objects of a share, when all are composed.
const SHARE: usize = 128;
const NOWHERE: u32 = u32::MAX;

/// The vectors and biases of some objects, or of all.
#[derive(Debug, Default)]
pub(super) struct Cache {
    vectors: Vec<Eight>,
    biases: Vec<f32>,
    /// Where the vector of an object is.
    slots: Vec<u32>,
    /// The objects whose vectors are here, slot by slot.
    objects: Vec<u32>,
    /// Registers of a vector.
    width: usize,
    has_biases: bool,
    listed: Listed,
}

/// Features and values of objects that are composed together.
type Listed = Vec<(u32, f32)>;

impl Cache {
    /// Make room for the places of objects.
    pub(super) fn new(side: &Side<'_>) -> Result<Self, Failure> {
        Ok(Self {
            slots: filled(side.first.objects.len(), NOWHERE)?,
            width: side.width(),
            has_biases: !side.biases.is_empty(),
            ..Self::default()
        })
    }

    /// Parameters have changed.
    pub(super) fn forget(&mut self) {
        for object in self.objects.drain(..) {
            self.slots[object as usize] = NOWHERE;
        }
    }

    #[inline(always)]
    pub(super) fn view(&self) -> View<'_> {
        View {
            vectors: &self.vectors,
            biases: if self.has_biases { &self.biases } else { &[] },
            slots: &self.slots,
            width: self.width,
        }
    }

    /// Have the vectors of objects at hand.
    ///
    /// Those that are missing are listed first, then some objects' features are, and then these
    /// are composed: the shorter a loop and the fewer its branches, the more loads overlap.
    #[inline(always)]
    pub(super) fn load<M: Machine>(
        &mut self,
        machine: M,
        side: &Side<'_>,
        wanted: impl ExactSizeIterator<Item = u32>,
    ) -> Result<(), Failure> {
        let first = self.objects.len();
        self.objects.try_reserve(wanted.len())?;
        for object in wanted {
            let slot = &mut self.slots[object as usize];
            if *slot == NOWHERE {
                *slot = u32::try_from(self.objects.len()).unwrap_or(NOWHERE);
                self.objects.push(object);
            }
        }
        let (width, end) = (side.width(), self.objects.len());
        lengthen(&mut self.vectors, end * width, Eight::default())?;
        lengthen(&mut self.biases, end, 0.0)?;
        fill(
            machine,
            side,
            &self.objects[first..],
            &mut self.vectors[first * width..end * width],
            &mut self.biases[first..end],
            &mut self.listed,
        )
    }

    /// Compose the vectors of all objects, some by each thread.
    pub(super) fn load_all(&mut self, side: &Side<'_>, crew: &Crew) -> Result<(), Failure> {
        let (count, width) = (self.slots.len(), side.width());
        if self.objects.len() < count {
            self.objects = (0..u32::try_from(count).unwrap_or(NOWHERE)).collect();
            self.slots.clone_from(&self.objects);
            lengthen(&mut self.vectors, count * width, Eight::default())?;
            lengthen(&mut self.biases, count, 0.0)?;
        }
        let objects = self.objects.chunks(SHARE);
        let vectors = self.vectors.chunks_mut(SHARE * width);
        let outputs = vectors.zip(self.biases.chunks_mut(SHARE));
        let mut shares: Vec<_> = objects
            .zip(outputs)
            .map(|(objects, (vectors, biases))| (objects, vectors, biases, Ok(())))
            .collect();
        crew.for_each(&mut shares, |(objects, vectors, biases, result)| {
            *result = dispatch(Fill {
                side,
                objects,
                vectors,
                biases,
            });
        });
        shares.into_iter().try_for_each(|(_, _, _, result)| result)
    }
}

struct Fill<'a> {
    side: &'a Side<'a>,
    objects: &'a [u32],
    vectors: &'a mut [Eight],
    biases: &'a mut [f32],
}

impl Job for Fill<'_> {
    type Output = Result<(), Failure>;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Result<(), Failure> {
        fill(
            machine,
            self.side,
            self.objects,
            self.vectors,
            self.biases,
            &mut Listed::new(),
        )
    }
}

/// Compose the vectors and biases of objects.
#[inline(always)]
fn fill<M: Machine>(
    machine: M,
    side: &Side<'_>,
    objects: &[u32],
    vectors: &mut [Eight],
    biases: &mut [f32],
    listed: &mut Listed,
) -> Result<(), Failure> {
    let width = side.width();
    let outputs = vectors.chunks_mut(TOGETHER * width);
    for (objects, vectors) in objects.chunks(TOGETHER).zip(outputs) {
        let halves = [Some(side.first), side.second];
        for (half, start) in halves.iter().flatten().zip([0, side.chunks]) {
            let lines = vectors.chunks_exact_mut(width);
            let lines = lines.map(|line| &mut line[start..start + side.chunks]);
            fill_half(machine, half, objects, lines, listed)?;
        }
    }
    if !side.biases.is_empty() {
        for (&object, bias) in objects.iter().zip(biases) {
            *bias = side.first.objects.sum(object as usize, side.biases);
        }
    }
    Ok(())
}

/// Compose halves of the vectors of a few objects.
#[inline(always)]
fn fill_half<'v, M: Machine>(
    machine: M,
    half: &Half<'_>,
    objects: &[u32],
    lines: impl Iterator<Item = &'v mut [Eight]>,
    listed: &mut Listed,
) -> Result<(), Failure> {
    if !half.objects.are_composed() {
        for (&object, line) in objects.iter().zip(lines) {
            let row = &half.matrix[object as usize * line.len()..][..line.len()];
            line.copy_from_slice(row);
        }
        return Ok(());
    }
    let ends = list(half.objects, objects, listed)?;
    let mut start = 0;
    for (line, &end) in lines.zip(&ends[..objects.len()]) {
        let entries = listed[start..end].iter();
        let entries = entries.map(|&(feature, value)| (feature as usize, value));
        compose(machine, &entries, half.matrix, line);
        start = end;
    }
    Ok(())
}

/// List the features and values of objects; return where each ends.
#[inline(always)]
fn list(
    objects: &Objects<'_>,
    numbers: &[u32],
    listed: &mut Listed,
) -> Result<[usize; TOGETHER], Failure> {
    listed.clear();
    let mut ends = [0; TOGETHER];
    for (&number, end) in numbers.iter().zip(&mut ends) {
        listed.try_reserve(objects.count(number as usize))?;
        objects.for_entries(number as usize, |feature, value| {
            listed.push((u32::try_from(feature).unwrap_or(NOWHERE), value));
        });
        *end = listed.len();
    }
    Ok(ends)
}
