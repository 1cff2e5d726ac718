//! Thread teams: one pool per number of threads, created on first use and reused.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder, Yield};

type Pools = HashMap<(u32, usize), Arc<Pool>>;

/// Pools by process and number of threads. A forked child inherits the entries but not the
/// threads; with the process in the key it never uses, or drops, its parent's pools.
static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// How often a thread looks for work without pause, and then after yielding to other threads.
const SPINS: usize = 1_000;
const YIELDS: usize = 3_000;
/// How long a thread then sleeps between two looks.
const REST: Duration = Duration::from_micros(50);

#[derive(Debug)]
struct Pool {
    threads: ThreadPool,
    /// Whether its threads are kept awake.
    is_awake: AtomicBool,
}

/// The threads that share the work of a loop; a single thread is the caller's own.
#[derive(Clone, Debug)]
pub struct ThreadTeam(Option<Arc<Pool>>);

impl ThreadTeam {
    /// Find or create the team with this many threads.
    ///
    /// In a process that forks, call this where no fork can happen at the same time (from Python:
    /// attached to the interpreter): a child could inherit a locked lock.
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
        let pool = Arc::new(Pool {
            threads: builder.thread_name(|i| format!("ranking-{i}")).build()?,
            is_awake: AtomicBool::new(false),
        });
        pools.insert(key, Arc::clone(&pool));
        Ok(Self(Some(pool)))
    }

    /// The caller's own thread.
    pub(crate) fn single() -> Self {
        Self(None)
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        let pool = self.0.as_ref();
        pool.map_or(1, |pool| pool.threads.current_num_threads())
    }

    /// Run `work` on a thread of the team, so that each `for_each` in it starts without hand-over.
    pub(crate) fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            None => work(),
            Some(pool) => pool.threads.install(work),
        }
    }

    /// As `enter`, for work that has many short `for_each`: the other threads look for items all
    /// the time, because it takes longer to wake a thread than to process some items.
    pub(crate) fn enter_awake<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let Some(pool) = &self.0 else {
            return work();
        };
        // Two callers that keep threads awake would wait for each other: each could execute the
        // other's endless search for work while it waits for its own items.
        if pool.is_awake.swap(true, Ordering::Acquire) {
            return pool.threads.install(work);
        }
        let awake = Awake(&pool.is_awake);
        pool.threads.install(|| {
            let caller = rayon::current_thread_index();
            rayon::scope(|scope| {
                let is_awake = awake.0;
                scope.spawn_broadcast(move |_, context| {
                    if caller != Some(context.index()) {
                        look_for_work(is_awake);
                    }
                });
                // Release the other threads even if the work panics.
                let _awake = awake;
                work()
            })
        })
    }

    /// Process every item of an iterator, in any order.
    pub(crate) fn run<T: Send>(
        &self,
        items: impl Iterator<Item = T>,
        work: impl Fn(&mut T) + Sync + Send,
    ) {
        let mut items: Vec<_> = items.collect();
        self.enter(|| self.for_each(&mut items, work));
    }

    /// Process every item, in any order; call it within `enter`.
    pub(crate) fn for_each<T: Send>(&self, items: &mut [T], work: impl Fn(&mut T) + Sync + Send) {
        match &self.0 {
            None => items.iter_mut().for_each(work),
            Some(_) => share_out(items, &work),
        }
    }
}

/// Process every item, halves at the same time.
fn share_out<T: Send>(items: &mut [T], work: &(impl Fn(&mut T) + Sync)) {
    if let [item] = items {
        return work(item);
    }
    let (first, second) = items.split_at_mut(items.len().div_ceil(2));
    if second.is_empty() {
        return;
    }
    // The pool would soon put a thread to sleep that waits for its other half; short items end
    // before it wakes.
    let waits = AtomicBool::new(true);
    rayon::join(
        || {
            share_out(first, work);
            look_for_work(&waits);
        },
        || {
            let _waits = Awake(&waits);
            share_out(second, work);
        },
    );
}

/// A thread is kept awake while this lives.
struct Awake<'a>(&'a AtomicBool);

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Execute work of the pool until the thread need not stay awake.
fn look_for_work(is_awake: &AtomicBool) {
    let mut looks: usize = 0;
    while is_awake.load(Ordering::Acquire) {
        if rayon::yield_now() == Some(Yield::Executed) {
            looks = 0;
            continue;
        }
        looks += 1;
        if looks < SPINS {
            std::hint::spin_loop();
        } else if looks < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_processed_once() {
        for threads in 1..=3 {
            let team = ThreadTeam::new(threads).unwrap();
            for count in [0, 1, 2, 3, 7, 100] {
                let mut items = vec![0; count];
                team.enter_awake(|| team.for_each(&mut items, |item| *item += 1));
                team.enter(|| team.for_each(&mut items, |item| *item += 1));
                assert_eq!(items, vec![2; count]);
            }
        }
    }

    #[test]
    fn a_panic_releases_waiting_threads() {
        let team = ThreadTeam::new(2).unwrap();
        for bad in [0, 1] {
            let mut items = [0, 1];
            let work = || team.enter_awake(|| team.for_each(&mut items, |at| assert_ne!(*at, bad)));
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
        }
        let mut items = [0; 2];
        team.enter_awake(|| team.for_each(&mut items, |item| *item += 1));
        assert_eq!(items, [1; 2]);
    }
}
