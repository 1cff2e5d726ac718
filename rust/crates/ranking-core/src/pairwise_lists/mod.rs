//! Pairwise losses over judged lists: value, slopes, and the quadratic model of a Newton step.

mod columns;
mod gram;
mod list;
mod model;
mod slopes;
mod windows;

pub use columns::{combination, products};
pub use gram::gram;
pub use model::{QuadraticModel, descend};
pub use slopes::slopes;

use crate::pairwise::NativeSlope;

/// A pairwise loss over judged lists.
#[derive(Clone, Copy, Debug)]
pub enum Curve {
    /// Quadratic between two gaps, computed by windows of sorted rows.
    Windows(Window),
    /// log(1 + exp(-z)), computed by all pairs.
    Logistic,
    /// Functions of a third party, called for all pairs.
    Native(NativeCurve),
}

/// The gaps between which a loss is quadratic, and its second derivative there.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct Window {
    pub lower: f64,
    pub upper: f64,
    pub bend: f64,
}

/// A loss of a third party: its value, its slope and the largest second derivative.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct NativeCurve {
    pub value: NativeSlope,
    pub slope: NativeSlope,
    pub bend: f64,
}
