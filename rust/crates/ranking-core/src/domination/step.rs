//! One step along one feature.

use crate::constants::{CURVATURE_FLOOR, RADIUS_FLOOR};
use crate::error::{Error, check_length};
use crate::exp;
use crate::matrix::Index;

/// Where a descent stands and what it minimises: loss + l1 |w| + l2/2 w**2.
#[derive(Debug)]
pub struct CoordinateDescent<'a> {
    weights: &'a mut [f64],
    radius: &'a mut [f64],
    bounds: &'a [f64],
    columns: &'a [i64],
    l1: f64,
    l2: f64,
    newton: bool,
}

impl<'a> CoordinateDescent<'a> {
    /// Check the arrays against one another; `bounds` has three rows: curvature, range, peak.
    ///
    /// # Errors
    /// When they are not one a feature, or a column is not a feature.
    pub fn new(
        weights: &'a mut [f64],
        radius: &'a mut [f64],
        bounds: &'a [f64],
        columns: &'a [i64],
        l1: f64,
        l2: f64,
        newton: bool,
    ) -> Result<Self, Error> {
        let features = weights.len();
        check_length("radius", radius.len(), features)?;
        check_length("bounds", bounds.len(), features.saturating_mul(3))?;
        check_columns(columns, features)?;
        Ok(Self {
            weights,
            radius,
            bounds,
            columns,
            l1,
            l2,
            newton,
        })
    }

    /// Refuse features of another number.
    pub(super) fn check_features(&self, features: usize) -> Result<(), Error> {
        check_length("weights", self.weights.len(), features)
    }

    /// The columns to step along, in order: those whose feature varies within a list.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> + use<'a> {
        let bounds = self.bounds;
        let columns = self.columns.iter().map(|column| column.position());
        columns.filter(move |&column| bounds[column] != 0.0)
    }

    /// The largest absolute value of a feature.
    pub(super) fn peak(&self, column: usize) -> f64 {
        self.bounds[2 * self.weights.len() + column]
    }

    /// Minimise the majoriser along one feature; return the change of its weight.
    pub(super) fn step(&mut self, column: usize, g: f64, h: f64) -> f64 {
        let (bound, reach) = (
            self.bounds[column],
            self.bounds[self.weights.len() + column],
        );
        let (w, mut radius) = (self.weights[column], self.radius[column]);
        let mut c = bound;
        if self.newton {
            let u = reach * radius;
            let kappa = 2.0 * ((exp::one(u) - u) - 1.0) / (u * u);
            if h * kappa < bound {
                c = h * kappa;
                if c < bound * CURVATURE_FLOOR {
                    c = bound * CURVATURE_FLOOR;
                }
            }
        }
        let pull = c * w - g;
        let mut target = if pull > self.l1 {
            (pull - self.l1) / (c + self.l2)
        } else if pull < -self.l1 {
            (pull + self.l1) / (c + self.l2)
        } else {
            0.0
        };
        let mut delta = target - w;
        if c < bound {
            if delta > radius {
                delta = radius;
                target = w + delta;
            } else if delta < -radius {
                delta = -radius;
                target = w + delta;
            }
        }
        let size = delta.abs();
        radius *= 0.5;
        if radius < 2.0 * size {
            radius = 2.0 * size;
        }
        if radius < RADIUS_FLOOR / reach {
            radius = RADIUS_FLOOR / reach;
        }
        self.weights[column] = target;
        self.radius[column] = radius;
        delta
    }
}

/// Refuse columns that are no features.
pub(super) fn check_columns(columns: &[i64], features: usize) -> Result<(), Error> {
    if columns.iter().all(|column| column.position() < features) {
        return Ok(());
    }
    Err(Error::argument(format!(
        "columns must lie below {features}, and not be negative."
    )))
}
