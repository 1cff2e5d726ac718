//! Parameters of the factored model, and how embeddings are composed of them.

use crate::constants::WIDE;
use crate::error::{Error, check_length};
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

impl FactoredFeatures<'_> {
    fn check(&self) -> Result<(), Error> {
        if let Some(contexts) = &self.contexts {
            check_length("contexts", contexts.len(), self.queries.len())?;
            let n_features = self.documents.n_features();
            check_length("context features", contexts.n_features(), n_features)?;
        }
        let limit = u32::MAX as usize;
        let all = [&self.queries, &self.documents];
        if all.iter().any(|x| x.len().max(x.n_features()) >= limit) {
            return Err(Error::argument(format!(
                "rows and features must be fewer than {limit}"
            )));
        }
        Ok(())
    }
}

/// Registers of a row of `width` numbers.
fn registers(width: usize) -> Result<usize, Error> {
    if width.is_multiple_of(WIDE) {
        return Ok(width / WIDE);
    }
    Err(Error::argument(format!(
        "embeddings have {width} numbers, expected a multiple of {WIDE}"
    )))
}

/// U, V, S and the biases, to read. S and the biases may be empty.
#[derive(Clone, Copy, Debug)]
pub struct Factors<'a> {
    queries: &'a [Eight],
    documents: &'a [Eight],
    contexts: &'a [Eight],
    biases: &'a [f32],
    /// Registers of a row.
    chunks: usize,
}

/// U, V, S and the biases, or Adagrad's sums of squares, to write.
#[derive(Debug)]
pub struct FactorsMut<'a> {
    pub(super) queries: &'a mut [Eight],
    pub(super) documents: &'a mut [Eight],
    pub(super) contexts: &'a mut [Eight],
    pub(super) biases: &'a mut [f32],
    /// Registers of a row.
    pub(super) chunks: usize,
}

impl<'a> FactorsMut<'a> {
    /// Take U, V and S, whose rows have `width` numbers, and biases.
    ///
    /// # Errors
    /// When the width is not a multiple of 8.
    pub fn new(
        [queries, documents, contexts]: [&'a mut [f32]; 3],
        biases: &'a mut [f32],
        width: usize,
    ) -> Result<Self, Error> {
        Ok(Self {
            queries: queries.as_chunks_mut().0,
            documents: documents.as_chunks_mut().0,
            contexts: contexts.as_chunks_mut().0,
            biases,
            chunks: registers(width)?,
        })
    }

    /// The numbers of rows of U and V.
    #[must_use]
    pub fn n_rows(&self) -> [usize; 2] {
        self.view().n_rows()
    }

    pub(super) fn view(&self) -> Factors<'_> {
        Factors {
            queries: self.queries,
            documents: self.documents,
            contexts: self.contexts,
            biases: self.biases,
            chunks: self.chunks,
        }
    }
}

/// What a step changes.
#[derive(Debug)]
pub struct FactoredState<'a> {
    /// The parameters.
    pub factors: FactorsMut<'a>,
    /// Adagrad's sums of squares; all empty without Adagrad.
    pub squares: FactorsMut<'a>,
}

impl FactoredState<'_> {
    /// Refuse what does not fit the features, or sums of squares that do not fit the parameters.
    pub(super) fn check(&self, features: &FactoredFeatures<'_>) -> Result<(), Error> {
        let (factors, squares) = (self.factors.view(), self.squares.view());
        factors.check(features)?;
        let has_squares = !squares.queries.is_empty();
        let pairs = [
            (squares.queries.len(), factors.queries.len()),
            (squares.documents.len(), factors.documents.len()),
            (squares.contexts.len(), factors.contexts.len()),
            (squares.biases.len(), factors.biases.len()),
        ];
        pairs.into_iter().try_for_each(|(length, expected)| {
            check_length("squares", length, if has_squares { expected } else { 0 })
        })
    }
}

impl<'a> Factors<'a> {
    /// Take U, V and S, whose rows have `width` numbers, and biases.
    ///
    /// # Errors
    /// When the width is not a multiple of 8.
    pub fn new(
        [queries, documents, contexts]: [&'a [f32]; 3],
        biases: &'a [f32],
        width: usize,
    ) -> Result<Self, Error> {
        Ok(Self {
            queries: queries.as_chunks().0,
            documents: documents.as_chunks().0,
            contexts: contexts.as_chunks().0,
            biases,
            chunks: registers(width)?,
        })
    }

    /// The numbers of rows of U and V.
    #[must_use]
    pub fn n_rows(&self) -> [usize; 2] {
        [self.queries.len(), self.documents.len()].map(|length| length / self.chunks.max(1))
    }

    /// Refuse what does not fit the features.
    pub(super) fn check(&self, features: &FactoredFeatures<'_>) -> Result<(), Error> {
        features.check()?;
        let (u_rows, v_rows) = (
            features.queries.n_features(),
            features.documents.n_features(),
        );
        let s_rows = features
            .contexts
            .map_or(0, |contexts| contexts.n_features());
        let biases = if self.biases.is_empty() { 0 } else { v_rows };
        if self.chunks == 0 {
            return Err(Error::argument("embeddings have no numbers"));
        }
        let length = |rows: usize| rows.saturating_mul(self.chunks);
        check_length("factors.queries", self.queries.len(), length(u_rows))?;
        check_length("factors.documents", self.documents.len(), length(v_rows))?;
        check_length("factors.contexts", self.contexts.len(), length(s_rows))?;
        check_length("factors.biases", self.biases.len(), biases)
    }

    /// How the embeddings of queries are composed.
    pub(super) fn query_side(&self, features: &'a FactoredFeatures<'_>) -> Side<'a> {
        Side {
            first: Half {
                features: &features.queries,
                matrix: self.queries,
            },
            second: features.contexts.as_ref().map(|features| Half {
                features,
                matrix: self.contexts,
            }),
            biases: &[],
            chunks: self.chunks,
        }
    }

    /// How the embeddings and biases of documents are composed.
    pub(super) fn document_side(&self, features: &'a FactoredFeatures<'_>) -> Side<'a> {
        Side {
            first: Half {
                features: &features.documents,
                matrix: self.documents,
            },
            second: features.contexts.as_ref().map(|_| Half {
                features: &features.documents,
                matrix: self.contexts,
            }),
            biases: self.biases,
            chunks: self.chunks,
        }
    }
}

/// Widths, in registers, for which loops over plain rows are compiled separately and unrolled.
pub(super) const WIDTHS: [usize; 3] = [4, 8, 16];

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
