//! Threads: a pool per number of threads, built on first use and kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

type Pools = HashMap<(u32, usize), Arc<ThreadPool>>;

/// Pools by process and number of threads. A forked child inherits the entries but not the
/// threads; with the process in the key it never meets, or drops, its parent's pools.
static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// The threads that share a loop's work; one thread means the caller's own.
#[derive(Clone, Debug)]
pub struct Crew(Option<Arc<ThreadPool>>);

impl Crew {
    /// Find or build the crew with this many threads.
    ///
    /// In a process that forks, call this where no fork can happen at the same time (from Python:
    /// attached to the interpreter), lest a child inherit a locked lock.
    ///
    /// # Errors
    /// When the system refuses the threads.
    pub fn new(threads: usize) -> Result<Self, ThreadPoolBuildError> {
        if threads <= 1 {
            return Ok(Self(None));
        }
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let pools = pools.get_or_insert_default();
        let key = (std::process::id(), threads);
        if let Some(pool) = pools.get(&key) {
            return Ok(Self(Some(Arc::clone(pool))));
        }
        let builder = ThreadPoolBuilder::new().num_threads(threads);
        let pool = Arc::new(builder.thread_name(|i| format!("ranking-{i}")).build()?);
        pools.insert(key, Arc::clone(&pool));
        Ok(Self(Some(pool)))
    }

    /// The caller's own thread.
    pub(crate) fn alone() -> Self {
        Self(None)
    }

    /// How many there are.
    pub(crate) fn threads(&self) -> usize {
        self.0.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Run `work` as one of the crew, so that each `for_each` in it starts without a hand-over.
    pub(crate) fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            None => work(),
            Some(pool) => pool.install(work),
        }
    }

    /// Do something with every item, in any order; call it within `enter`.
    pub(crate) fn for_each<T: Send>(&self, items: &mut [T], work: impl Fn(&mut T) + Sync + Send) {
        match &self.0 {
            None => items.iter_mut().for_each(work),
            Some(_) => items.par_iter_mut().for_each(work),
        }
    }
}
