//! The factored model in training (U, V, S and biases).
//!
//! `ranking/kernels/contract/factored.py` says what is computed, and
//! `ranking/kernels/reference/factored.py` in which order. A batch of steps goes through phases, in
//! each of which threads share the work and write to slices of their own:
//!
//! 1. negatives are sampled, triplet by triplet ([`sample`]), with embeddings that are composed on
//!    first use ([`cache`]); a step is recorded with what it reads of rows that the batch changes
//!    ([`records`]);
//! 2. queries and documents that share rows are indexed with their steps ([`occurrences`]);
//! 3. their gradients are summed ([`sums`]), and their features are listed by row ([`tables`]);
//! 4. rows are updated ([`rows`]).
//!
//! A query or document without features has a row of its own. The thread that updates the row
//! indexes its steps and sums their gradients at once, in registers; if no side has features, there
//! are two phases.

mod batches;
mod cache;
mod features;
mod occurrences;
mod parameters;
mod records;
mod rows;
mod sample;
mod share_embeddings;
mod sums;
mod tables;
mod train;
mod triplets;

pub use features::Features;
pub use parameters::{FactoredFeatures, FactoredState, Factors, FactorsMut};
pub use train::*;
pub use triplets::TripletSource;
