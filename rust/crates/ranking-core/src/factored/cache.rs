//! Embeddings at the start of a batch: each is composed once, on first use.

use crate::dispatch::{Job, dispatch};
use crate::error::{filled, lengthen, reserve};
use crate::factored::features::compose;
use crate::factored::parameters::{Half, Side, View};
use crate::matrix::short;
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
    pub(super) fn new(side: &Side<'_>) -> Self {
        Self {
            slots: filled(side.first.features.len(), NONE),
            width: side.width(),
            has_biases: !side.biases.is_empty(),
            ..Self::default()
        }
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
    ) {
        let first = self.entities.len();
        reserve(&mut self.entities, wanted.len());
        for entity in wanted {
            let slot = &mut self.slots[entity as usize];
            if *slot == NONE {
                *slot = short(self.entities.len());
                self.entities.push(entity);
            }
        }
        let (width, end) = (side.width(), self.entities.len());
        lengthen(&mut self.embeddings, end * width, Eight::default());
        lengthen(&mut self.biases, end, 0.0);
        let fill = Fill {
            side,
            entities: &self.entities[first..],
            embeddings: &mut self.embeddings[first * width..end * width],
            biases: &mut self.biases[first..end],
            listed: &mut self.listed,
        };
        fill.run(machine);
    }

    /// Compose all embeddings, some by each thread.
    pub(super) fn load_all(&mut self, side: &Side<'_>, team: &ThreadTeam) {
        let (count, width) = (self.slots.len(), side.width());
        if self.entities.len() < count {
            self.entities = (0..short(count)).collect();
            self.slots.clone_from(&self.entities);
            lengthen(&mut self.embeddings, count * width, Eight::default());
            lengthen(&mut self.biases, count, 0.0);
        }
        let entities = self.entities.chunks(SHARE);
        let embeddings = self.embeddings.chunks_mut(SHARE * width);
        let outputs = embeddings.zip(self.biases.chunks_mut(SHARE));
        let shares = entities.zip(outputs);
        team.run(shares, |(entities, (embeddings, biases))| {
            dispatch(Fill {
                side,
                entities,
                embeddings,
                biases,
                listed: &mut Listed::new(),
            });
        });
    }
}

/// Compose embeddings and biases.
struct Fill<'a> {
    side: &'a Side<'a>,
    entities: &'a [u32],
    embeddings: &'a mut [Eight],
    biases: &'a mut [f32],
    listed: &'a mut Listed,
}

impl Job for Fill<'_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let (side, width) = (self.side, self.side.width());
        let outputs = self.embeddings.chunks_mut(TOGETHER * width);
        for (entities, embeddings) in self.entities.chunks(TOGETHER).zip(outputs) {
            let halves = [Some(side.first), side.second];
            for (half, start) in halves.iter().flatten().zip([0, side.chunks]) {
                let lines = embeddings.chunks_exact_mut(width);
                let lines = lines.map(|line| &mut line[start..start + side.chunks]);
                fill_half(machine, half, entities, lines, self.listed);
            }
        }
        if !side.biases.is_empty() {
            for (&entity, bias) in self.entities.iter().zip(self.biases) {
                *bias = side.first.features.sum(entity as usize, side.biases);
            }
        }
    }
}

/// Compose halves of a few embeddings: list their features and values, then sum the rows.
#[inline(always)]
fn fill_half<'v, M: Machine>(
    machine: M,
    half: &Half<'_>,
    entities: &[u32],
    lines: impl Iterator<Item = &'v mut [Eight]>,
    listed: &mut Listed,
) {
    if !half.features.are_sparse() {
        for (&entity, line) in entities.iter().zip(lines) {
            let row = &half.matrix[entity as usize * line.len()..][..line.len()];
            line.copy_from_slice(row);
        }
        return;
    }
    listed.clear();
    let mut ends = [0; TOGETHER];
    for (&entity, end) in entities.iter().zip(&mut ends) {
        reserve(listed, half.features.count(entity as usize));
        half.features
            .for_entries(entity as usize, |feature, value| {
                listed.push((short(feature), value));
            });
        *end = listed.len();
    }
    let mut start = 0;
    for (line, &end) in lines.zip(&ends[..entities.len()]) {
        let entries = listed[start..end].iter();
        let entries = entries.map(|&(feature, value)| (feature as usize, value));
        compose(machine, &entries, half.matrix, line);
        start = end;
    }
}
