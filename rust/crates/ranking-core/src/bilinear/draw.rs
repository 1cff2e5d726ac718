//! Tuples by counter: the draws of a step are those of a seed that is the step's own draw.

use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::Index;
use crate::rng::{below, draw};

/// Which documents match which query.
#[derive(Clone, Copy, Debug)]
pub struct MatchLists<'a> {
    queries: &'a [i64],
    list_of: &'a [i64],
    list_ptr: &'a [i64],
    members: &'a [i64],
    itself: &'a [i64],
    n_documents: u32,
}

impl<'a> MatchLists<'a> {
    /// Query q has the documents members[`list_ptr`[l]..`list_ptr`[l + 1]], l = `list_of`[q], which
    /// rise; itself[q] is never drawn as its positive.
    ///
    /// # Errors
    /// When sizes or positions do not fit, or a query to draw has nothing to be drawn.
    pub fn new(
        queries: &'a [i64],
        list_of: &'a [i64],
        list_ptr: &'a [i64],
        members: &'a [i64],
        itself: &'a [i64],
        n_documents: u32,
    ) -> Result<Self, Invalid> {
        check_length("itself", itself.len(), list_of.len())?;
        let lists = list_ptr.len().max(1) - 1;
        let pointers = list_ptr.iter().map(|at| at.position());
        check_pointer("list_ptr", pointers, lists, members.len())?;
        let made = Self {
            queries,
            list_of,
            list_ptr,
            members,
            itself,
            n_documents,
        };
        let fits = |&query: &i64| {
            let (list, itself) = (
                list_of.get(query.position())?,
                itself.get(query.position())?,
            );
            let own = u32::try_from(made.own(*list)?.len()).ok()?;
            Some(own > u32::from(*itself >= 0) && own < n_documents)
        };
        if u32::try_from(queries.len()).is_ok() && queries.iter().all(|q| fits(q) == Some(true)) {
            return Ok(made);
        }
        Err(Invalid::new(
            "every query to draw needs a document that matches and one that not.",
        ))
    }

    fn own(&self, list: i64) -> Option<&'a [i64]> {
        let start = self.list_ptr.get(list.position())?.position();
        let stop = self.list_ptr.get(list.position() + 1)?.position();
        self.members.get(start..stop)
    }
}

/// A length that fits, or nothing to draw from.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(0)
}

/// Fill `out` with tuples of `width` numbers: query, positive, negatives.
///
/// # Errors
/// When `out` does not consist of whole tuples, or there is no query.
pub fn draw_tuples(
    seed: u64,
    first: u64,
    lists: &MatchLists<'_>,
    width: usize,
    out: &mut [i64],
) -> Result<(), Invalid> {
    if width < 3
        || !out.len().is_multiple_of(width)
        || (lists.queries.is_empty() && !out.is_empty())
    {
        return Err(Invalid::new(
            "a tuple is a query, a positive and at least one negative.",
        ));
    }
    for (step, tuple) in (0..).zip(out.chunks_exact_mut(width)) {
        let key = draw(seed, first.wrapping_add(step));
        let chosen = below(draw(key, 0), count(lists.queries.len())) as usize;
        let query = lists.queries[chosen];
        let itself = lists.itself[query.position()];
        let own = lists.own(lists.list_of[query.position()]).unwrap_or(&[]);
        let members = count(own.len());
        let mut positive = below(draw(key, 1), members - u32::from(itself >= 0)) as usize;
        if itself >= 0 && positive >= own.partition_point(|&member| member < itself) {
            positive += 1;
        }
        (tuple[0], tuple[1]) = (query, own[positive]);
        for (trial, negative) in (2..).zip(&mut tuple[2..]) {
            let u = i64::from(below(draw(key, trial), lists.n_documents - members));
            *negative = u + outside(own, u);
        }
    }
    Ok(())
}

/// own[k] - k documents before own[k] are not members, so the u-th that is not is u + k.
fn outside(own: &[i64], u: i64) -> i64 {
    let (mut low, mut high) = (0, own.len());
    let mut passed = 0;
    while low < high {
        let middle = low + (high - low) / 2;
        let k = i64::try_from(middle).unwrap_or(i64::MAX);
        if own[middle] - k <= u {
            (low, passed) = (middle + 1, k + 1);
        } else {
            high = middle;
        }
    }
    passed
}
