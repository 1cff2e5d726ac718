//! Where the vectors of a block's objects are, by share.

use crate::bilinear::Failure;
use crate::factored::cache::Cache;
use crate::factored::parameters::{Side, View};
use crate::lanes::Machine;
use crate::threads::Crew;

/// Vectors of one side, for a share of the tuples.
pub(super) enum Near<'a> {
    /// Rows as they are.
    Plain,
    /// All have been composed.
    All(&'a Cache),
    /// Those that are wanted are composed.
    Some(&'a mut Cache),
}

impl Near<'_> {
    #[inline(always)]
    pub(super) fn load<M: Machine>(
        &mut self,
        machine: M,
        side: &Side<'_>,
        wanted: impl ExactSizeIterator<Item = u32>,
    ) -> Result<(), Failure> {
        match self {
            Self::Some(cache) => cache.load(machine, side, wanted),
            _ => Ok(()),
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

/// Vectors of one side's objects, by share.
#[derive(Debug)]
pub(super) enum Nearby {
    /// Rows as they are.
    Plain,
    /// All objects are composed at the start of a block.
    All(Cache),
    /// Each share has those that it needs.
    Some(Vec<Cache>),
}

impl Nearby {
    /// Vectors of which a block looks at about so many.
    pub(super) fn new(side: &Side<'_>, looks: usize, shares: usize) -> Result<Self, Failure> {
        if side.is_plain() {
            return Ok(Self::Plain);
        }
        // Shares that compose what they need together compose more than all there is if they
        // look at it more often than about 1.4 times.
        let most = looks.saturating_mul(7);
        if shares > 1 && side.first.objects.len().saturating_mul(10) <= most {
            return Ok(Self::All(Cache::new(side)?));
        }
        let caches = (0..shares).map(|_| Cache::new(side));
        Ok(Self::Some(caches.collect::<Result<_, _>>()?))
    }

    /// Begin a block.
    pub(super) fn begin(&mut self, side: &Side<'_>, crew: &Crew) -> Result<(), Failure> {
        match self {
            Self::Plain => {}
            Self::All(cache) => cache.load_all(side, crew)?,
            Self::Some(caches) => caches.iter_mut().for_each(Cache::forget),
        }
        Ok(())
    }

    /// What each share looks at.
    pub(super) fn shares(&mut self, shares: usize) -> Vec<Near<'_>> {
        match self {
            Self::Plain => (0..shares).map(|_| Near::Plain).collect(),
            Self::All(cache) => (0..shares).map(|_| Near::All(cache)).collect(),
            Self::Some(caches) => caches.iter_mut().map(Near::Some).collect(),
        }
    }

    /// Composed vectors by share, for whoever only looks.
    pub(super) fn views(&self, shares: usize) -> Vec<View<'_>> {
        match self {
            Self::Plain => Vec::new(),
            Self::All(cache) => vec![cache.view(); shares],
            Self::Some(caches) => caches.iter().map(Cache::view).collect(),
        }
    }
}
