//! U, V, S and biases in training: negatives are searched and steps taken by blocks; scores.
//!
//! `ranking/kernels/contract.py` ("Factored") says what is computed, and
//! `ranking/kernels/reference_factored.py` in which order. A block goes through phases, in each of
//! which threads share the work and write to slices of their own:
//!
//! 1. the search, by tuple ([`search`]), at vectors that are composed when they are first looked
//!    at ([`cache`]); a step that is found is written down with what it reads of rows that the
//!    block changes ([`notes`]);
//! 2. objects that share rows are listed with their steps ([`registry`]);
//! 3. their gradients are added up by object ([`sums`]), and features are listed by row
//!    ([`transposed`]);
//! 4. rows are changed ([`rows`]).
//!
//! An object that has no features has a row of its own. Who changes that lists its steps and adds
//! up their gradients at once, in registers; if all objects are such, there are two phases.

mod block;
mod cache;
mod nearby;
mod notes;
mod objects;
mod parameters;
mod registry;
mod rows;
mod scores;
mod search;
mod source;
mod steps;
mod sums;
mod tables;
mod tiles;
mod top;
mod transposed;
mod vectors;

pub use objects::Objects;
pub use parameters::{Factors, Sides};
pub use scores::factored_scores;
pub use search::Chosen;
pub use source::{Source, Trials};
pub use steps::{Plan, Shrinking, Steps, factored_search, factored_steps, factored_update};
pub use top::{Barred, factored_top};
pub use vectors::factored_vectors;
