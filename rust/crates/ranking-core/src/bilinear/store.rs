//! W as a whole: what comes in and what leaves.

use crate::bilinear::Failure;
use crate::bilinear::groups::{Group, Layout};
use crate::bilinear::lens::{Clock, Lens, Origin};
use crate::bilinear::part::{Part, View};
use crate::bilinear::row::Row;
use crate::bilinear::stored::Stored;
use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::Index;

/// The most rows, or columns.
const LARGEST: usize = i32::MAX as usize;

/// W while it is trained; only what is not zero is kept.
#[derive(Debug)]
pub struct Store<T> {
    /// By place.
    rows: Vec<Row<T>>,
    groups: Vec<Group>,
    layout: Layout,
}

impl<T: Stored> Store<T> {
    /// Hold these values.
    ///
    /// `row_state` has A, B and the window of each row's last renewal; `groups` the group of each
    /// row, or nothing; `group_state` scale, square, largest square and B of each group.
    ///
    /// # Errors
    /// When sizes do not fit, or there is no memory.
    pub fn new(
        n_columns: usize,
        indptr: &[i64],
        indices: &[i32],
        values: &[T],
        row_state: &[f64],
        groups: &[i64],
        group_weights: &[f64],
        group_state: &[f64],
    ) -> Result<Self, Failure> {
        let n_rows = indptr.len().saturating_sub(1);
        if n_rows.max(n_columns) > LARGEST {
            return Err(Invalid::new(format!(
                "W is {n_rows} x {n_columns}; it must be at most {LARGEST} each."
            ))
            .into());
        }
        check_length("indices", indices.len(), values.len())?;
        let pointers = indptr.iter().map(|at| at.position());
        check_pointer("indptr", pointers, n_rows, values.len())?;
        if indices.iter().any(|column| column.position() >= n_columns) {
            return Err(Invalid::new(format!("indices must lie below {n_columns}.")).into());
        }
        check_length("row_state", row_state.len(), n_rows.saturating_mul(3))?;
        if !groups.is_empty() {
            check_length("groups", groups.len(), n_rows)?;
        }
        let wanted = group_weights.len().saturating_mul(4);
        check_length("group_state", group_state.len(), wanted)?;
        let layout = Layout::new(n_rows, n_columns, groups, group_weights.len())?;
        let mut rows = Vec::new();
        rows.try_reserve_exact(n_rows)?;
        let mut numbers = Vec::new();
        numbers.try_reserve_exact(n_rows)?;
        numbers.extend(0..n_rows);
        numbers.sort_by_key(|&row| groups.get(row));
        for row in numbers {
            let part = indptr[row].position()..indptr[row + 1].position();
            let columns = indices[part.clone()].iter().map(|i| i.cast_unsigned());
            let origin = Origin {
                scale: row_state[3 * row],
                threshold: row_state[3 * row + 1],
                window: row_state[3 * row + 2],
            };
            let entries = columns.zip(values[part].iter().copied());
            rows.push(Row::new(entries, n_columns, origin)?);
        }
        let mut states = Vec::new();
        states.try_reserve_exact(group_weights.len())?;
        let given = group_weights.iter().zip(group_state.as_chunks().0);
        states.extend(
            given.map(|(&weight, &[scale, square, largest, since])| Group {
                scale,
                square,
                largest,
                since,
                weight,
            }),
        );
        Ok(Self {
            rows,
            groups: states,
            layout,
        })
    }

    pub(super) fn view(&self) -> View<'_, T> {
        View {
            first: 0,
            rows: &self.rows,
            first_group: 0,
            groups: &self.groups,
            layout: &self.layout,
        }
    }

    pub(super) fn part(&mut self) -> Part<'_, T> {
        Part {
            first: 0,
            rows: &mut self.rows,
            first_group: 0,
            groups: &mut self.groups,
            layout: &self.layout,
        }
    }

    /// The rows in order, and their lenses.
    fn in_order(&self, clock: &Clock) -> impl Iterator<Item = (&Row<T>, Lens)> {
        let clock = *clock;
        (0..).take(self.rows.len()).map(move |row| {
            let place = self.layout.place(row);
            (&self.rows[place], self.view().lens(place, &clock))
        })
    }

    /// Fill `out` with the number of entries of each row that are not zero now.
    ///
    /// # Errors
    /// When `out` has another size.
    pub fn counts(&self, clock: &Clock, out: &mut [i64]) -> Result<(), Failure> {
        check_length("out", out.len(), self.rows.len())?;
        for (out, (row, lens)) in out.iter_mut().zip(self.in_order(clock)) {
            *out = i64::try_from(row.count(lens)).unwrap_or(i64::MAX);
        }
        Ok(())
    }

    /// Fill indices and values, by row and column: the weights if `current`, else what is stored.
    ///
    /// # Errors
    /// When `indptr` does not follow `counts`, or there is no memory.
    pub fn export(
        &self,
        clock: &Clock,
        indptr: &[i64],
        indices: &mut [i32],
        values: &mut [T],
        current: bool,
    ) -> Result<(), Failure> {
        check_length("values", values.len(), indices.len())?;
        let pointers = indptr.iter().map(|at| at.position());
        check_pointer("indptr", pointers, self.rows.len(), indices.len())?;
        let mut entries = Vec::new();
        for (ends, (row, lens)) in indptr.windows(2).zip(self.in_order(clock)) {
            let part = ends[0].position()..ends[1].position();
            row.sorted(&mut entries, |v| lens.weight(v) != 0.0)?;
            check_length("a row of indptr", part.len(), entries.len())?;
            let out = indices[part.clone()].iter_mut().zip(&mut values[part]);
            for ((index, value), &(column, v)) in out.zip(&entries) {
                *index = i32::try_from(column).unwrap_or(i32::MAX);
                *value = if current {
                    T::narrow(lens.weight(v.widen()))
                } else {
                    v
                };
            }
        }
        Ok(())
    }

    /// Fill what `new` takes to go on with the same bits.
    ///
    /// # Errors
    /// When sizes do not fit.
    pub fn state(&self, row_state: &mut [f64], group_state: &mut [f64]) -> Result<(), Failure> {
        check_length("row_state", row_state.len(), 3 * self.rows.len())?;
        check_length("group_state", group_state.len(), 4 * self.groups.len())?;
        for (row, out) in (0..).zip(row_state.as_chunks_mut().0) {
            let origin = self.rows[self.layout.place(row)].origin;
            *out = [origin.scale, origin.threshold, origin.window];
        }
        for (group, out) in self.groups.iter().zip(group_state.as_chunks_mut().0) {
            *out = [group.scale, group.square, group.largest, group.since];
        }
        Ok(())
    }

    /// The bytes that the store has taken.
    #[must_use]
    pub fn memory(&self) -> usize {
        let entries: usize = self.rows.iter().map(Row::taken).sum();
        entries + size_of_val(&self.rows[..]) + size_of_val(&self.groups[..])
    }
}
