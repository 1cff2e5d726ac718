//! One step along one feature.

use crate::constants::{CURVATURE_FLOOR, RADIUS_FLOOR};
use crate::exp;
use crate::matrix::Index;

/// State of coordinate descent; the contract describes the fields.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct CoordinateState<'a> {
    pub margins: &'a mut [f64],
    pub weights: &'a mut [f64],
    pub radius: &'a mut [f64],
    pub bounds: &'a [f64],
}

/// The penalty l1 |w| + l2/2 w**2 of each weight.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct EntryPenalty {
    pub l1: f64,
    pub l2: f64,
}

/// Coordinate descent that minimises loss + l1 |w| + l2/2 w**2.
#[derive(Debug)]
pub(super) struct CoordinateDescent<'a> {
    pub(super) weights: &'a mut [f64],
    pub(super) radius: &'a mut [f64],
    pub(super) bounds: &'a [f64],
    pub(super) columns: &'a [i64],
    pub(super) penalty: EntryPenalty,
    pub(super) newton: bool,
}

impl<'a> CoordinateDescent<'a> {
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
        let center = c * w - g;
        let mut target = if center > self.penalty.l1 {
            (center - self.penalty.l1) / (c + self.penalty.l2)
        } else if center < -self.penalty.l1 {
            (center + self.penalty.l1) / (c + self.penalty.l2)
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
