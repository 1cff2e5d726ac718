//! Scores of composed queries and documents.

use std::ops::Range;

use crate::bilinear::Failure;
use crate::dispatch::{Job, dispatch};
use crate::factored::tiles::{BROAD, Inputs, Line, Sink};
use crate::invalid::check_length;
use crate::lanes::Machine;
use crate::threads::Crew;
use crate::wide::dot_wide;

/// Queries that one thread takes at a time.
const SHARE: usize = 256;
/// Fewer queries are not worth it to lay the documents out.
const FEW: usize = 6;

struct Scores<'a, 'o> {
    inputs: Inputs<'a>,
    out: &'o mut [f32],
}

impl Job for Scores<'_, '_> {
    type Output = Result<(), Failure>;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Result<(), Failure> {
        let n_documents = self.inputs.n_documents();
        let n_queries = self.out.len() / n_documents;
        if n_queries < FEW {
            self.one_by_one(machine, n_documents);
            return Ok(());
        }
        let mut written = Written {
            out: self.out,
            n_documents,
        };
        self.inputs.by_tiles(machine, n_queries, &mut written)
    }
}

impl Scores<'_, '_> {
    #[inline(always)]
    fn one_by_one<M: Machine>(self, machine: M, n_documents: usize) {
        let lines = self.out.chunks_exact_mut(n_documents);
        for (query, line) in lines.enumerate() {
            let query = self.inputs.query(query);
            for (document, out) in line.iter_mut().enumerate() {
                *out = dot_wide(machine, query, self.inputs.document(document));
            }
            for (out, bias) in line.iter_mut().zip(self.inputs.biases) {
                *out += bias;
            }
        }
    }
}

/// Scores are written down.
struct Written<'o> {
    out: &'o mut [f32],
    n_documents: usize,
}

impl Sink for Written<'_> {
    #[inline(always)]
    fn take<M: Machine>(&mut self, _: M, query: usize, documents: Range<usize>, scores: &Line) {
        let first = query * self.n_documents + documents.start;
        write(&mut self.out[first..][..documents.len()], scores);
    }
}

#[inline(always)]
fn write(out: &mut [f32], scores: &Line) {
    let scores = scores.as_flattened();
    if let Ok(out) = <&mut [f32; BROAD]>::try_from(&mut *out) {
        out.copy_from_slice(scores);
    } else {
        out.copy_from_slice(&scores[..out.len()]);
    }
}

/// Fill out[i, j] with queries[i] . documents[j] + biases[j]; there may be no biases.
///
/// # Errors
/// When sizes do not fit, the width is no multiple of 8, or there is no memory.
pub fn factored_scores(
    queries: &[f32],
    documents: &[f32],
    width: usize,
    biases: &[f32],
    n_documents: usize,
    out: &mut [f32],
    crew: &Crew,
) -> Result<(), Failure> {
    if out.is_empty() {
        return Ok(());
    }
    let n_queries = out.len() / n_documents.max(1);
    check_length("out", out.len(), n_queries.saturating_mul(n_documents))?;
    let inputs = Inputs::new(queries, documents, biases, width, [n_queries, n_documents])?;
    let size = n_queries.div_ceil(crew.threads()).min(SHARE);
    let parts = out.chunks_mut(size * n_documents).enumerate();
    let mut parts: Vec<_> = parts.map(|(part, out)| (part, out, Ok(()))).collect();
    crew.enter(|| {
        crew.for_each(&mut parts, |(part, out, result)| {
            *result = dispatch(Scores {
                inputs: inputs.from(*part * size),
                out,
            });
        });
    });
    parts.into_iter().try_for_each(|(_, _, result)| result)
}
