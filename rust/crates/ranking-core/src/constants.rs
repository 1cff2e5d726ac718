//! The constants of the kernel contract; `ranking/kernels/contract/constants.py` explains each.

/// Version of the contract.
pub const ABI: u32 = 5;
/// Partial sums of a sum in lanes.
pub const LANES: usize = 4;
/// Elements of a block of `block_sum`.
pub const BLOCK: usize = 4096;
/// Name of the generator.
pub const RNG: &str = "splitmix64";
/// Name of the exponential.
pub const EXP: &str = "minimax-11";

pub(crate) const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Margins of a list that span more than this need one reference per layer.
pub(crate) const SPREAD: f64 = 300.0;
/// Share of the mean square that is added to a variance.
pub(crate) const ROUNDING: f64 = 128.0 * f64::EPSILON; // 2**-45
/// A Newton curvature is at least this share of the global bound.
pub(crate) const CURVATURE_FLOOR: f64 = 4096.0 * f64::EPSILON; // 2**-40
/// Smallest radius of a Newton step, times the feature's range.
pub(crate) const RADIUS_FLOOR: f64 = 0.0625;
/// A sum that falls below this share of its maximum is summed again from scratch.
pub(crate) const RESUM: f64 = 1.0 / 1024.0;
/// Steps of a window, in which a row of W that changes is rebased once.
pub(crate) const REBASE_WINDOW: f64 = 4096.0;
/// A running scale that falls below this is reset to 1.
pub(crate) const MIN_SCALE: f64 = f64::from_bits(0x3BF0_0000_0000_0000); // 2**-64
/// Partial sums of a dot product in singles.
pub(crate) const WIDE: usize = 8;
/// Parts of the selected lists that have a Gram matrix of their own.
pub(crate) const PARTS: usize = 16;
/// Rows of a list whose products are added up before they are added to the Gram matrix.
pub(crate) const CHUNK: usize = 64;
/// Pairs whose factors 1 + exp(-|z|) are multiplied before the logarithm is taken.
pub(crate) const PRODUCTS: usize = 512;
/// Half the distance of the difference quotient that is the curvature of a native loss.
pub(crate) const SECANT: f64 = 1.0 / 1024.0;
