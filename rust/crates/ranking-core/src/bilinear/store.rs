//! W as a whole: construction and export.

use crate::bilinear::groups::{Group, Layout};
use crate::bilinear::part::{Part, View};
use crate::bilinear::row::Row;
use crate::bilinear::shrinkage::{Origin, Pending, ShrinkageState};
use crate::error::reserve;
use crate::matrix::{Index, Stored};

/// Values from which a store starts; the contract describes the fields.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct BilinearState<'a, T> {
    pub indptr: &'a [i64],
    pub indices: &'a [i32],
    pub data: &'a [T],
    pub row_state: &'a [f64],
    pub groups: &'a [i64],
    pub group_weights: &'a [f64],
    pub group_state: &'a [f64],
}

/// W while it is trained; only what is not zero is stored.
#[derive(Debug)]
pub struct Store<T> {
    /// By place.
    rows: Vec<Row<T>>,
    groups: Vec<Group>,
    layout: Layout,
}

impl<T: Stored> Store<T> {
    /// Start from these values.
    #[must_use]
    pub fn new(n_columns: usize, state: &BilinearState<'_, T>) -> Self {
        let n_rows = state.indptr.len() - 1;
        let n_groups = state.group_weights.len();
        let layout = Layout::new(n_columns, state.groups, n_groups);
        let mut rows = Vec::new();
        reserve(&mut rows, n_rows);
        let mut numbers = Vec::new();
        reserve(&mut numbers, n_rows);
        numbers.extend(0..n_rows);
        numbers.sort_by_key(|&row| state.groups.get(row));
        for row in numbers {
            let part = state.indptr[row].position()..state.indptr[row + 1].position();
            let columns = state.indices[part.clone()].iter();
            let columns = columns.map(|i| i.cast_unsigned());
            let origin = Origin {
                scale: state.row_state[3 * row],
                threshold: state.row_state[3 * row + 1],
                window: state.row_state[3 * row + 2],
            };
            let entries = columns.zip(state.data[part].iter().copied());
            rows.push(Row::new(entries, n_columns, origin));
        }
        let mut groups = Vec::new();
        reserve(&mut groups, n_groups);
        let states = state.group_state.as_chunks().0;
        let states = state.group_weights.iter().zip(states);
        groups.extend(
            states.map(|(&weight, &[scale, square, largest, since])| Group {
                scale,
                square,
                largest,
                since,
                weight,
            }),
        );
        Self {
            rows,
            groups,
            layout,
        }
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

    /// The rows in order, and their pending shrinkage.
    fn in_order(&self, state: &ShrinkageState) -> impl Iterator<Item = (&Row<T>, Pending)> {
        let state = *state;
        (0..).take(self.rows.len()).map(move |row| {
            let place = self.layout.place(row);
            (&self.rows[place], self.view().pending(place, &state))
        })
    }

    /// Fill `out` with the number of entries of each row that are not zero now.
    pub fn counts(&self, state: &ShrinkageState, out: &mut [i64]) {
        for (out, (row, pending)) in out.iter_mut().zip(self.in_order(state)) {
            *out = i64::try_from(row.count(pending)).unwrap_or(i64::MAX);
        }
    }

    /// Fill indices and values, by row and column: the weights if `current`, else what is stored.
    pub fn export(
        &self,
        state: &ShrinkageState,
        indptr: &[i64],
        indices: &mut [i32],
        values: &mut [T],
        current: bool,
    ) {
        let mut entries = Vec::new();
        for (ends, (row, pending)) in indptr.windows(2).zip(self.in_order(state)) {
            let part = ends[0].position()..ends[1].position();
            row.sorted(&mut entries, |v| pending.weight(v) != 0.0);
            let out = indices[part.clone()].iter_mut().zip(&mut values[part]);
            for ((index, value), &(column, v)) in out.zip(&entries) {
                *index = i32::try_from(column).unwrap_or(i32::MAX);
                *value = if current {
                    T::narrow(pending.weight(v.widen()))
                } else {
                    v
                };
            }
        }
    }

    /// Fill the state from which `new` continues with the same bits.
    pub fn state(&self, row_state: &mut [f64], group_state: &mut [f64]) {
        for (row, out) in (0..).zip(row_state.as_chunks_mut().0) {
            let origin = self.rows[self.layout.place(row)].origin;
            *out = [origin.scale, origin.threshold, origin.window];
        }
        for (group, out) in self.groups.iter().zip(group_state.as_chunks_mut().0) {
            *out = [group.scale, group.square, group.largest, group.since];
        }
    }

    /// The bytes that the store has allocated.
    #[must_use]
    pub fn memory(&self) -> usize {
        let entries: usize = self.rows.iter().map(Row::allocated).sum();
        entries + size_of_val(&self.rows[..]) + size_of_val(&self.groups[..])
    }
}
