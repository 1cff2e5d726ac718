//! Embeddings at the start of a batch: each is composed once, on first use.

use crate::dispatch::{Job, dispatch};
use crate::error::{Error, filled, lengthen};
use crate::factored::features::{Features, compose};
use crate::factored::parameters::{Half, Side, View};
use crate::simd::{Eight, Machine};
use crate::threads::ThreadTeam;

/// Embeddings that are composed together.
const TOGETHER: usize = 32;
/// Embeddings of a task, when all are composed.
const SHARE: usize = 128;
const NONE: u32 = u32::MAX;

/// The embeddings and biases of some queries or documents, or of all.
#[derive(Debug, Default)]
pub(super) struct Cache {
    embeddings: Vec<Eight>,
    biases: Vec<f32>,
    /// Where an embedding is.
    slots: Vec<u32>,
    /// The queries or documents whose embeddings are here, slot by slot.
    entities: Vec<u32>,
    /// Registers of an embedding.
    width: usize,
    has_biases: bool,
    listed: Listed,
}

/// Features and values of embeddings that are composed together.
type Listed = Vec<(u32, f32)>;

impl Cache {
    /// Allocate the slots.
    pub(super) fn new(side: &Side<'_>) -> Result<Self, Error> {
        Ok(Self {
            slots: filled(side.first.features.len(), NONE)?,
            width: side.width(),
            has_biases: !side.biases.is_empty(),
            ..Self::default()
        })
    }

    /// Drop all embeddings, because parameters have changed.
    pub(super) fn forget(&mut self) {
        for entity in self.entities.drain(..) {
            self.slots[entity as usize] = NONE;
        }
    }

    #[inline(always)]
    pub(super) fn view(&self) -> View<'_> {
        View {
            embeddings: &self.embeddings,
            biases: if self.has_biases { &self.biases } else { &[] },
            slots: &self.slots,
            width: self.width,
        }
    }

    /// Load embeddings.
    ///
    /// Those that are missing are listed first, then the features of some, and then these are
    /// composed: the shorter a loop and the fewer its branches, the more loads overlap.
    #[inline(always)]
    pub(super) fn load<M: Machine>(
        &mut self,
        machine: M,
        side: &Side<'_>,
        wanted: impl ExactSizeIterator<Item = u32>,
    ) -> Result<(), Error> {
        let first = self.entities.len();
        self.entities.try_reserve(wanted.len())?;
        for entity in wanted {
            let slot = &mut self.slots[entity as usize];
            if *slot == NONE {
                *slot = u32::try_from(self.entities.len()).unwrap_or(NONE);
                self.entities.push(entity);
            }
        }
        let (width, end) = (side.width(), self.entities.len());
        lengthen(&mut self.embeddings, end * width, Eight::default())?;
        lengthen(&mut self.biases, end, 0.0)?;
        fill(
            machine,
            side,
            &self.entities[first..],
            &mut self.embeddings[first * width..end * width],
            &mut self.biases[first..end],
            &mut self.listed,
        )
    }

    /// Compose all embeddings, some by each thread.
    pub(super) fn load_all(&mut self, side: &Side<'_>, team: &ThreadTeam) -> Result<(), Error> {
        let (count, width) = (self.slots.len(), side.width());
        if self.entities.len() < count {
            self.entities = (0..u32::try_from(count).unwrap_or(NONE)).collect();
            self.slots.clone_from(&self.entities);
            lengthen(&mut self.embeddings, count * width, Eight::default())?;
            lengthen(&mut self.biases, count, 0.0)?;
        }
        let entities = self.entities.chunks(SHARE);
        let embeddings = self.embeddings.chunks_mut(SHARE * width);
        let outputs = embeddings.zip(self.biases.chunks_mut(SHARE));
        let shares = entities.zip(outputs);
        team.try_for_each(shares, |(entities, (embeddings, biases))| {
            dispatch(Fill {
                side,
                entities,
                embeddings,
                biases,
            })
        })
    }
}

struct Fill<'a> {
    side: &'a Side<'a>,
    entities: &'a [u32],
    embeddings: &'a mut [Eight],
    biases: &'a mut [f32],
}

impl Job for Fill<'_> {
    type Output = Result<(), Error>;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Result<(), Error> {
        fill(
            machine,
            self.side,
            self.entities,
            self.embeddings,
            self.biases,
            &mut Listed::new(),
        )
    }
}

/// Compose embeddings and biases.
#[inline(always)]
fn fill<M: Machine>(
    machine: M,
    side: &Side<'_>,
    entities: &[u32],
    embeddings: &mut [Eight],
    biases: &mut [f32],
    listed: &mut Listed,
) -> Result<(), Error> {
    let width = side.width();
    let outputs = embeddings.chunks_mut(TOGETHER * width);
    for (entities, embeddings) in entities.chunks(TOGETHER).zip(outputs) {
        let halves = [Some(side.first), side.second];
        for (half, start) in halves.iter().flatten().zip([0, side.chunks]) {
            let lines = embeddings.chunks_exact_mut(width);
            let lines = lines.map(|line| &mut line[start..start + side.chunks]);
            fill_half(machine, half, entities, lines, listed)?;
        }
    }
    if !side.biases.is_empty() {
        for (&entity, bias) in entities.iter().zip(biases) {
            *bias = side.first.features.sum(entity as usize, side.biases);
        }
    }
    Ok(())
}

/// Compose halves of a few embeddings.
#[inline(always)]
fn fill_half<'v, M: Machine>(
    machine: M,
    half: &Half<'_>,
    entities: &[u32],
    lines: impl Iterator<Item = &'v mut [Eight]>,
    listed: &mut Listed,
) -> Result<(), Error> {
    if !half.features.are_sparse() {
        for (&entity, line) in entities.iter().zip(lines) {
            let row = &half.matrix[entity as usize * line.len()..][..line.len()];
            line.copy_from_slice(row);
        }
        return Ok(());
    }
    let ends = list(half.features, entities, listed)?;
    let mut start = 0;
    for (line, &end) in lines.zip(&ends[..entities.len()]) {
        let entries = listed[start..end].iter();
        let entries = entries.map(|&(feature, value)| (feature as usize, value));
        compose(machine, &entries, half.matrix, line);
        start = end;
    }
    Ok(())
}

/// List features and values; return where those of each query or document end.
#[inline(always)]
fn list(
    entities: &Features<'_>,
    numbers: &[u32],
    listed: &mut Listed,
) -> Result<[usize; TOGETHER], Error> {
    listed.clear();
    let mut ends = [0; TOGETHER];
    for (&number, end) in numbers.iter().zip(&mut ends) {
        listed.try_reserve(entities.count(number as usize))?;
        entities.for_entries(number as usize, |feature, value| {
            listed.push((u32::try_from(feature).unwrap_or(NONE), value));
        });
        *end = listed.len();
    }
    Ok(ends)
}
