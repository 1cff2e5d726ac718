//! Half-steps over M: the vectors of one side from those of the other.
//!
//! `ranking/kernels/contract.py` ("Alternating") says what is computed, and
//! `ranking/kernels/reference_alternating.py` in which order. A row is summed, thresholded, scaled
//! and weighed up while it is in cache ([`rule`]). The vectors that it is the sum of lie anywhere in
//! memory, and fetching them is the cost; so they are asked for ahead.

mod chunks;
mod dense;
mod rule;
mod sparse;

pub use dense::half_step;
pub use rule::Rule;
pub use sparse::{Sparse, SparseEmbeddings, half_step_sparse};

/// Non-zeros of M by which a vector is asked for ahead.
const AHEAD: usize = 8;
/// Singles of a line of memory.
const LINE: usize = 16;
