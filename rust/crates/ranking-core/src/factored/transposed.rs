//! Which objects of a block have a feature: the sums that are added up for its row.

use crate::bilinear::{Failure, filled, lengthen};
use crate::factored::objects::Objects;
use crate::factored::registry::Registry;

const NOWHERE: u32 = u32::MAX;

/// For each row that a block changes, the slots of objects that have its feature, and the values.
#[derive(Debug)]
pub(super) struct Transposed {
    /// Where a row is in `rows`.
    places: Vec<u32>,
    pub(super) rows: Vec<u32>,
    /// Where the entries of each row end.
    ends: Vec<usize>,
    entries: Vec<(u32, f32)>,
}

/// Objects by slot, and their features.
#[derive(Clone, Copy)]
pub(super) struct Features<'a> {
    objects: &'a Objects<'a>,
    slots: &'a [u32],
}

impl<'a> Features<'a> {
    pub(super) fn new(objects: &'a Objects<'a>, registry: &'a Registry) -> Self {
        let slots = registry.objects();
        Self { objects, slots }
    }
}

impl Transposed {
    pub(super) fn new(n_rows: usize) -> Result<Self, Failure> {
        Ok(Self {
            places: filled(n_rows, NOWHERE)?,
            rows: Vec::new(),
            ends: Vec::new(),
            entries: Vec::new(),
        })
    }

    /// List the entries of objects by row, in place of those of the last block. The slots of the
    /// second objects follow those of the first.
    pub(super) fn list(&mut self, all: &[Features<'_>]) -> Result<(), Failure> {
        for row in self.rows.drain(..) {
            self.places[row as usize] = NOWHERE;
        }
        self.ends.clear();
        for some in all {
            for &object in some.slots {
                self.count(some.objects, object as usize)?;
            }
        }
        // From counts to starts; filling makes ends of them.
        let mut total = 0;
        for end in &mut self.ends {
            let start = total;
            total += *end;
            *end = start;
        }
        lengthen(&mut self.entries, total, (0, 0.0))?;
        let mut slot = 0;
        for some in all {
            for &object in some.slots {
                some.objects.for_entries(object as usize, |row, value| {
                    let end = &mut self.ends[self.places[row] as usize];
                    self.entries[*end] = (slot, value);
                    *end += 1;
                });
                slot += 1;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn count(&mut self, objects: &Objects<'_>, object: usize) -> Result<(), Failure> {
        let size = objects.count(object);
        self.rows.try_reserve(size)?;
        self.ends.try_reserve(size)?;
        objects.for_entries(object, |row, _| {
            let place = &mut self.places[row];
            if *place == NOWHERE {
                *place = u32::try_from(self.rows.len()).unwrap_or(NOWHERE);
                self.rows.push(u32::try_from(row).unwrap_or(NOWHERE));
                self.ends.push(0);
            }
            self.ends[*place as usize] += 1;
        });
        Ok(())
    }

    /// The slots and values of the row at a place.
    #[inline(always)]
    pub(super) fn entries(&self, place: usize) -> &[(u32, f32)] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.entries[start..self.ends[place]]
    }
}
