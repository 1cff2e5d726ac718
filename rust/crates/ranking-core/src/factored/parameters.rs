//! U, V, S and the biases, and the objects whose vectors they make up.

use crate::contract::WIDE;
use crate::factored::objects::Objects;
use crate::invalid::{Invalid, check_length};
use crate::lanes::Machine;
use crate::wide::Eight;

/// Queries, documents, and the contexts of queries if there are any.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// Queries.
    pub queries: Objects<'a>,
    /// Documents.
    pub documents: Objects<'a>,
    /// One for each query: a sum of document features.
    pub contexts: Option<Objects<'a>>,
}

impl Sides<'_> {
    fn check(&self) -> Result<(), Invalid> {
        if let Some(contexts) = &self.contexts {
            check_length("contexts", contexts.len(), self.queries.len())?;
            check_length(
                "contexts' features",
                contexts.features(),
                self.documents.features(),
            )?;
        }
        let most = u32::MAX as usize;
        let all = [&self.queries, &self.documents];
        if all.iter().any(|x| x.len() >= most || x.features() >= most) {
            return Err(Invalid::new(format!(
                "objects and features are limited to {most}."
            )));
        }
        Ok(())
    }
}

/// U, V, S and the biases, or Adagrad's sums of squares.
#[derive(Debug)]
pub struct Factors<'a> {
    pub(super) u: &'a mut [Eight],
    pub(super) v: &'a mut [Eight],
    /// Empty if there are no contexts.
    pub(super) s: &'a mut [Eight],
    pub(super) biases: &'a mut [f32],
    /// Registers of a row.
    pub(super) chunks: usize,
}

impl<'a> Factors<'a> {
    /// Take matrices whose rows have `width` numbers, and biases, which may be empty.
    ///
    /// # Errors
    /// When the width is no multiple of 8.
    pub fn new(
        u: &'a mut [f32],
        v: &'a mut [f32],
        s: &'a mut [f32],
        biases: &'a mut [f32],
        width: usize,
    ) -> Result<Self, Invalid> {
        if !width.is_multiple_of(WIDE) {
            return Err(Invalid::new(format!(
                "vectors have {width} numbers; pad them to a multiple of {WIDE}."
            )));
        }
        Ok(Self {
            u: u.as_chunks_mut().0,
            v: v.as_chunks_mut().0,
            s: s.as_chunks_mut().0,
            biases,
            chunks: width / WIDE,
        })
    }

    /// Refuse what does not fit the objects.
    pub(super) fn check(&self, sides: &Sides<'_>) -> Result<(), Invalid> {
        sides.check()?;
        let (u_rows, v_rows) = (sides.queries.features(), sides.documents.features());
        let s_rows = sides.contexts.map_or(0, |contexts| contexts.features());
        let biases = if self.biases.is_empty() { 0 } else { v_rows };
        if self.chunks == 0 {
            return Err(Invalid::new("vectors must have a width of at least 8."));
        }
        check_length("U", self.u.len(), u_rows.saturating_mul(self.chunks))?;
        check_length("V", self.v.len(), v_rows.saturating_mul(self.chunks))?;
        check_length("S", self.s.len(), s_rows.saturating_mul(self.chunks))?;
        check_length("biases", self.biases.len(), biases)
    }

    /// Refuse sums of squares that do not fit the parameters; all may be empty.
    pub(super) fn check_squares(&self, squares: &Self) -> Result<(), Invalid> {
        let wanted = |length: usize| if squares.u.is_empty() { 0 } else { length };
        check_length("squares of U", squares.u.len(), wanted(self.u.len()))?;
        check_length("squares of V", squares.v.len(), wanted(self.v.len()))?;
        check_length("squares of S", squares.s.len(), wanted(self.s.len()))?;
        check_length(
            "squares of biases",
            squares.biases.len(),
            wanted(self.biases.len()),
        )
    }

    /// How the vectors of queries are made up.
    pub(super) fn query_side<'s>(&'s self, sides: &'s Sides<'_>) -> Side<'s> {
        Side {
            first: Half {
                objects: &sides.queries,
                matrix: self.u,
            },
            second: sides.contexts.as_ref().map(|objects| Half {
                objects,
                matrix: self.s,
            }),
            biases: &[],
            chunks: self.chunks,
        }
    }

    /// How the vectors and biases of documents are made up.
    pub(super) fn document_side<'s>(&'s self, sides: &'s Sides<'_>) -> Side<'s> {
        Side {
            first: Half {
                objects: &sides.documents,
                matrix: self.v,
            },
            second: sides.contexts.as_ref().map(|_| Half {
                objects: &sides.documents,
                matrix: self.s,
            }),
            biases: self.biases,
            chunks: self.chunks,
        }
    }
}

/// Widths of which there is a copy of loops over plain rows, in registers: such loops are unrolled.
pub(super) const WIDTHS: [usize; 3] = [4, 8, 16];

/// Ask for a row of so many registers, of which two are a line of memory.
#[inline(always)]
pub(super) fn ask_row<M: Machine>(machine: M, rows: &[Eight], row: usize, chunks: usize) {
    for line in 0..chunks.div_ceil(2) {
        machine.ask(rows, row * chunks + 2 * line);
    }
}

/// Objects, and the rows that a half of their vectors is the sum of.
#[derive(Clone, Copy)]
pub(super) struct Half<'a> {
    pub(super) objects: &'a Objects<'a>,
    pub(super) matrix: &'a [Eight],
}

/// Queries or documents, and what their vectors and biases are made up of.
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
    /// Registers of a vector.
    #[inline(always)]
    pub(super) fn width(&self) -> usize {
        self.chunks * if self.second.is_some() { 2 } else { 1 }
    }

    /// Is the vector of an object a row as it is?
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        !self.first.objects.are_composed() && self.second.is_none()
    }

    /// Ask for the row of an object if it is plain.
    #[inline(always)]
    pub(super) fn ask<M: Machine>(&self, machine: M, is_plain: bool, object: u32) {
        if is_plain {
            ask_row(machine, self.first.matrix, object as usize, self.chunks);
        }
    }

    /// The rows of plain objects.
    #[inline(always)]
    pub(super) fn plain(&self) -> View<'a> {
        View {
            vectors: self.first.matrix,
            biases: self.biases,
            slots: &[],
            width: self.chunks,
        }
    }
}

/// The vectors and biases of objects, for whoever only looks.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) vectors: &'a [Eight],
    /// Empty if there are none.
    pub(super) biases: &'a [f32],
    /// Where an object's vector is; empty if it is where its number says.
    pub(super) slots: &'a [u32],
    /// Registers of a vector.
    pub(super) width: usize,
}

impl<'a> View<'a> {
    #[inline(always)]
    pub(super) fn place(&self, object: usize) -> usize {
        if self.slots.is_empty() {
            object
        } else {
            self.slots[object] as usize
        }
    }

    #[inline(always)]
    pub(super) fn vector(&self, object: usize) -> &'a [Eight] {
        &self.vectors[self.place(object) * self.width..][..self.width]
    }
}
