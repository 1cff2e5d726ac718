//! Which queries, or documents, of a batch have a feature: their sums are added for its row.

use crate::error::{Error, filled, lengthen};
use crate::factored::features::Features;
use crate::factored::occurrences::OccurrenceIndex;

const NONE: u32 = u32::MAX;

/// For each row that a batch changes, the slots that have its feature, and the values.
#[derive(Debug)]
pub(super) struct Transposed {
    /// Where a row is in `rows`.
    places: Vec<u32>,
    pub(super) rows: Vec<u32>,
    /// Where the entries of each row end.
    ends: Vec<usize>,
    entries: Vec<(u32, f32)>,
}

/// Queries, or documents, by slot, and their features.
#[derive(Clone, Copy)]
pub(super) struct EntityFeatures<'a> {
    entities: &'a Features<'a>,
    slots: &'a [u32],
}

impl<'a> EntityFeatures<'a> {
    pub(super) fn new(entities: &'a Features<'a>, index: &'a OccurrenceIndex) -> Self {
        let slots = index.entities();
        Self { entities, slots }
    }
}

impl Transposed {
    pub(super) fn new(n_rows: usize) -> Result<Self, Error> {
        Ok(Self {
            places: filled(n_rows, NONE)?,
            rows: Vec::new(),
            ends: Vec::new(),
            entries: Vec::new(),
        })
    }

    /// List the entries by row, instead of those of the last batch. The slots of the second
    /// features follow those of the first.
    pub(super) fn list(&mut self, all: &[EntityFeatures<'_>]) -> Result<(), Error> {
        for row in self.rows.drain(..) {
            self.places[row as usize] = NONE;
        }
        self.ends.clear();
        for some in all {
            for &entity in some.slots {
                self.count(some.entities, entity as usize)?;
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
            for &entity in some.slots {
                some.entities.for_entries(entity as usize, |row, value| {
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
    fn count(&mut self, entities: &Features<'_>, entity: usize) -> Result<(), Error> {
        let size = entities.count(entity);
        self.rows.try_reserve(size)?;
        self.ends.try_reserve(size)?;
        entities.for_entries(entity, |row, _| {
            let place = &mut self.places[row];
            if *place == NONE {
                *place = u32::try_from(self.rows.len()).unwrap_or(NONE);
                self.rows.push(u32::try_from(row).unwrap_or(NONE));
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
