//! Scores of queries and documents with composed embeddings.

use std::ops::Range;

use crate::dispatch::{Job, dispatch};
use crate::factored::tiles::{BROAD, Embeddings, Line, Sink};
use crate::simd::{Machine, dot_wide};
use crate::threads::ThreadTeam;

/// Queries that one thread takes at a time.
const SHARE: usize = 256;
/// It is not worth to transpose the documents for fewer queries.
const FEW: usize = 6;

struct Scores<'a, 'o> {
    embeddings: Embeddings<'a>,
    out: &'o mut [f32],
}

impl Job for Scores<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let n_documents = self.embeddings.n_documents();
        let n_queries = self.out.len() / n_documents;
        if n_queries < FEW {
            self.one_by_one(machine, n_documents);
            return;
        }
        let mut written = Written {
            out: self.out,
            n_documents,
        };
        self.embeddings.by_tiles(machine, n_queries, &mut written);
    }
}

impl Scores<'_, '_> {
    #[inline(always)]
    fn one_by_one<M: Machine>(self, machine: M, n_documents: usize) {
        let lines = self.out.chunks_exact_mut(n_documents);
        for (query, line) in lines.enumerate() {
            let query = self.embeddings.query(query);
            for (document, out) in line.iter_mut().enumerate() {
                *out = dot_wide(machine, query, self.embeddings.document(document));
            }
            for (out, bias) in line.iter_mut().zip(self.embeddings.biases) {
                *out += bias;
            }
        }
    }
}

/// Write all scores.
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
pub fn factored_scores(embeddings: Embeddings<'_>, out: &mut [f32], team: &ThreadTeam) {
    let (n_queries, n_documents) = (embeddings.n_queries(), embeddings.n_documents());
    if out.is_empty() {
        return;
    }
    let size = n_queries.div_ceil(team.threads()).min(SHARE);
    let parts = out.chunks_mut(size * n_documents).enumerate();
    team.run(parts, |(part, out)| {
        dispatch(Scores {
            embeddings: embeddings.from(*part * size),
            out,
        });
    });
}
