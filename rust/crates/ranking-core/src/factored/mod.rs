//! U, V and biases in training: negatives are searched, steps taken and rows projected by blocks.
//!
//! `ranking/kernels/contract.py` ("Factored") says what is computed, and
//! `ranking/kernels/reference_factored.py` in which order. At the start of a block every thread
//! searches some of its tuples and writes down what is to be subtracted, from which row
//! ([`search`]); then every thread takes some of the rows of U and V, subtracts all that falls to
//! them, in the order of the tuples, and projects them ([`table`]).

mod objects;
mod scores;
mod search;
mod steps;
mod table;
mod vectors;

pub use objects::Objects;
pub use scores::factored_scores;
pub use steps::{Factors, Plan, factored_steps};
pub use vectors::factored_vectors;
