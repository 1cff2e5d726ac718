//! Parameters of the factored model, and how embeddings are composed of them.

use crate::constants::WIDE;
use crate::factored::features::Features;
use crate::simd::{Eight, Machine};

/// Features of queries and documents, and the contexts of queries if there are any.
#[derive(Clone, Copy, Debug)]
pub struct FactoredFeatures<'a> {
    /// Of queries.
    pub queries: Features<'a>,
    /// Of documents.
    pub documents: Features<'a>,
    /// One row per query over the document features.
    pub contexts: Option<Features<'a>>,
}

/// U, V, S and the biases, or Adagrad's sums of squares. S and the biases may be empty.
#[derive(Clone, Copy, Debug)]
pub struct Tables<R, B> {
    pub(super) queries: R,
    pub(super) documents: R,
    pub(super) contexts: R,
    pub(super) biases: B,
    /// Registers of a row.
    pub(super) chunks: usize,
}

/// Tables to read.
pub type Factors<'a> = Tables<&'a [Eight], &'a [f32]>;

/// Tables to write.
pub type FactorsMut<'a> = Tables<&'a mut [Eight], &'a mut [f32]>;

/// What a step changes.
#[derive(Debug)]
pub struct FactoredState<'a> {
    /// The parameters.
    pub factors: FactorsMut<'a>,
    /// Adagrad's sums of squares; all empty without Adagrad.
    pub squares: FactorsMut<'a>,
}

impl<'a> FactorsMut<'a> {
    /// Take U, V and S, whose rows have `width` numbers, a multiple of 8, and biases.
    #[must_use]
    pub fn new(rows: [&'a mut [f32]; 3], biases: &'a mut [f32], width: usize) -> Self {
        let [queries, documents, contexts] = rows.map(|rows| rows.as_chunks_mut().0);
        let chunks = width / WIDE;
        Self {
            queries,
            documents,
            contexts,
            biases,
            chunks,
        }
    }

    /// The same, to read.
    #[must_use]
    pub fn view(&self) -> Factors<'_> {
        Factors {
            queries: self.queries,
            documents: self.documents,
            contexts: self.contexts,
            biases: self.biases,
            chunks: self.chunks,
        }
    }
}

impl<'a> Factors<'a> {
    /// The numbers of rows of U and V.
    #[must_use]
    pub fn n_rows(&self) -> [usize; 2] {
        [self.queries.len(), self.documents.len()].map(|length| length / self.chunks)
    }

    /// How the embeddings of queries, and those of documents, are composed.
    pub(super) fn sides(&self, features: &'a FactoredFeatures<'_>) -> [Side<'a>; 2] {
        let half = |features, matrix| Half { features, matrix };
        let second = |features: Option<&'a Features<'_>>| {
            features.map(|features| half(features, self.contexts))
        };
        let contexts = features.contexts.as_ref();
        let queries = Side {
            first: half(&features.queries, self.queries),
            second: second(contexts),
            biases: &[],
            chunks: self.chunks,
        };
        let documents = Side {
            first: half(&features.documents, self.documents),
            second: second(contexts.map(|_| &features.documents)),
            biases: self.biases,
            chunks: self.chunks,
        };
        [queries, documents]
    }
}

/// Run `$body` with `$chunks` bound to the registers of a row; loops over rows of the usual widths
/// are compiled separately and unrolled.
macro_rules! with_known_width {
    ($width:expr, |$chunks:ident| $body:expr) => {
        with_known_width!(@ $width, $chunks, $body, 4 8 16)
    };
    (@ $width:expr, $chunks:ident, $body:expr, $($known:literal)*) => {
        match $width {
            $($known => {
                let $chunks = $known;
                $body
            })*
            $chunks => $body,
        }
    };
}

pub(super) use with_known_width;

/// Prefetch a row of `chunks` registers, of which two are a cache line.
#[inline(always)]
pub(super) fn prefetch_row<M: Machine>(machine: M, rows: &[Eight], row: usize, chunks: usize) {
    for line in 0..chunks.div_ceil(2) {
        machine.prefetch(rows, row * chunks + 2 * line);
    }
}

/// Features, and the rows whose sums are one half of the embeddings.
#[derive(Clone, Copy)]
pub(super) struct Half<'a> {
    pub(super) features: &'a Features<'a>,
    pub(super) matrix: &'a [Eight],
}

/// Queries or documents: what their embeddings and biases are composed of.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) first: Half<'a>,
    /// With contexts only.
    pub(super) second: Option<Half<'a>>,
    /// Empty if there are none.
    pub(super) biases: &'a [f32],
    /// Registers of a half.
    pub(super) chunks: usize,
}

impl<'a> Side<'a> {
    /// Registers of an embedding.
    #[inline(always)]
    pub(super) fn width(&self) -> usize {
        self.chunks * if self.second.is_some() { 2 } else { 1 }
    }

    /// Are the embeddings rows themselves?
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        !self.first.features.are_sparse() && self.second.is_none()
    }

    /// Prefetch a row if the embeddings are rows.
    #[inline(always)]
    pub(super) fn prefetch<M: Machine>(&self, machine: M, is_plain: bool, entity: u32) {
        if is_plain {
            prefetch_row(machine, self.first.matrix, entity as usize, self.chunks);
        }
    }

    /// The rows, if the embeddings are rows.
    #[inline(always)]
    pub(super) fn plain(&self) -> View<'a> {
        View {
            embeddings: self.first.matrix,
            biases: self.biases,
            slots: &[],
            width: self.chunks,
        }
    }
}

/// Embeddings and biases, to read only.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) embeddings: &'a [Eight],
    /// Empty if there are none.
    pub(super) biases: &'a [f32],
    /// Where an embedding is; empty if it is where its number says.
    pub(super) slots: &'a [u32],
    /// Registers of an embedding.
    pub(super) width: usize,
}

impl<'a> View<'a> {
    #[inline(always)]
    pub(super) fn place(&self, entity: usize) -> usize {
        if self.slots.is_empty() {
            entity
        } else {
            self.slots[entity] as usize
        }
    }

    #[inline(always)]
    pub(super) fn embedding(&self, entity: usize) -> &'a [Eight] {
        &self.embeddings[self.place(entity) * self.width..][..self.width]
    }
}
