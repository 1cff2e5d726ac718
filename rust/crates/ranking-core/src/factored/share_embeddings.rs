//! The embeddings that a batch reads, by share of the triplets.

use crate::factored::cache::Cache;
use crate::factored::parameters::{Side, View};
use crate::simd::Machine;
use crate::threads::ThreadTeam;

/// Embeddings of one side, for a share of the triplets.
pub(super) enum ShareEmbeddings<'a> {
    /// The rows themselves.
    Plain,
    /// All are composed.
    All(&'a Cache),
    /// Those that are needed are composed.
    Some(&'a mut Cache),
}

impl ShareEmbeddings<'_> {
    #[inline(always)]
    pub(super) fn load<M: Machine>(
        &mut self,
        machine: M,
        side: &Side<'_>,
        wanted: impl ExactSizeIterator<Item = u32>,
    ) {
        if let Self::Some(cache) = self {
            cache.load(machine, side, wanted);
        }
    }

    #[inline(always)]
    pub(super) fn view<'s>(&'s self, side: &Side<'s>) -> View<'s> {
        match self {
            Self::Plain => side.plain(),
            Self::All(cache) => cache.view(),
            Self::Some(cache) => cache.view(),
        }
    }
}

/// Embeddings of one side, by share.
#[derive(Debug)]
pub(super) enum BatchEmbeddings {
    /// The rows themselves.
    Plain,
    /// All are composed at the start of a batch.
    All(Cache),
    /// Each share composes those that it needs.
    Some(Vec<Cache>),
}

impl BatchEmbeddings {
    /// Prepare for batches that read about so many embeddings.
    pub(super) fn new(side: &Side<'_>, reads: usize, shares: usize) -> Self {
        if side.is_plain() {
            return Self::Plain;
        }
        // Shares that compose what they need compose more than all together if they read more
        // than about 1.4 embeddings per existing one.
        let most = reads.saturating_mul(7);
        if shares > 1 && side.first.features.len().saturating_mul(10) <= most {
            return Self::All(Cache::new(side));
        }
        Self::Some((0..shares).map(|_| Cache::new(side)).collect())
    }

    /// Begin a batch.
    pub(super) fn begin(&mut self, side: &Side<'_>, team: &ThreadTeam) {
        match self {
            Self::Plain => {}
            Self::All(cache) => cache.load_all(side, team),
            Self::Some(caches) => caches.iter_mut().for_each(Cache::forget),
        }
    }

    /// What each share reads.
    pub(super) fn shares(&mut self, shares: usize) -> Vec<ShareEmbeddings<'_>> {
        match self {
            Self::Plain => (0..shares).map(|_| ShareEmbeddings::Plain).collect(),
            Self::All(cache) => (0..shares).map(|_| ShareEmbeddings::All(cache)).collect(),
            Self::Some(caches) => caches.iter_mut().map(ShareEmbeddings::Some).collect(),
        }
    }

    /// Composed embeddings by share, to read only.
    pub(super) fn views(&self, shares: usize) -> Vec<View<'_>> {
        match self {
            Self::Plain => Vec::new(),
            Self::All(cache) => vec![cache.view(); shares],
            Self::Some(caches) => caches.iter().map(Cache::view).collect(),
        }
    }
}
