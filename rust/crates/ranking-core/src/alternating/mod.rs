//! Half-steps over M: the embeddings of one side from those of the other.
//!
//! `ranking/kernels/contract/alternating.py` says what is computed, and
//! `ranking/kernels/reference/alternating.py` in which order. A row is summed, thresholded, scaled
//! and its gain computed while it is in cache ([`rule`]). The embeddings that it sums lie anywhere
//! in memory, and loading them is the cost; so they are prefetched.

mod chunks;
mod dense;
mod rule;
mod squared;

pub use dense::*;
pub use rule::Rule;
pub use squared::*;

/// Non-zeros of M by which an embedding is prefetched ahead.
const AHEAD: usize = 8;
/// Singles of a cache line.
const LINE: usize = 16;
