//! Threads: a pool per number of threads, built on first use and kept.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder, Yield};

type Pools = HashMap<(u32, usize), Arc<Pool>>;

/// Pools by process and number of threads. A forked child inherits the entries but not the
/// threads; with the process in the key it never meets, or drops, its parent's pools.
static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// Looks for work that are made at once, and then after giving way to other threads.
const SPINS: usize = 1_000;
const YIELDS: usize = 3_000;
/// How long a thread then rests between two looks.
const REST: Duration = Duration::from_micros(50);

#[derive(Debug)]
struct Pool {
    threads: ThreadPool,
    /// Are its threads kept awake for someone?
    is_awake: AtomicBool,
}

/// The threads that share a loop's work; one thread means the caller's own.
#[derive(Clone, Debug)]
pub struct ThreadTeam(Option<Arc<Pool>>);

impl ThreadTeam {
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

    /// How many there are.
    pub(crate) fn threads(&self) -> usize {
        let pool = self.0.as_ref();
        pool.map_or(1, |pool| pool.threads.current_num_threads())
    }

    /// Run `work` as one of the crew, so that each `for_each` in it starts without a hand-over.
    pub(crate) fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            None => work(),
            Some(pool) => pool.threads.install(work),
        }
    }

    /// As `enter`, for work that has many short `for_each`: the others look for its items all the
    /// time, for it takes longer to wake a thread than to do some of them.
    pub(crate) fn enter_awake<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let Some(pool) = &self.0 else {
            return work();
        };
        // Two that keep threads awake would wait for each other: each could come upon the other's
        // endless looking while it waits for its own items.
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
                // Also if the work panics, the others are let go.
                let _awake = awake;
                work()
            })
        })
    }

    /// Do something with every item, in any order; call it within `enter`.
    pub(crate) fn for_each<T: Send>(&self, items: &mut [T], work: impl Fn(&mut T) + Sync + Send) {
        match &self.0 {
            None => items.iter_mut().for_each(work),
            Some(_) => share_out(items, &work),
        }
    }
}

/// Do something with every item, halves at the same time.
fn share_out<T: Send>(items: &mut [T], work: &(impl Fn(&mut T) + Sync)) {
    if let [item] = items {
        return work(item);
    }
    let (mine, others) = items.split_at_mut(items.len().div_ceil(2));
    if others.is_empty() {
        return;
    }
    // The pool would put a thread to sleep that waits for its other half, as soon as it has looked
    // some times; short items end sooner than it wakes.
    let waits = AtomicBool::new(true);
    rayon::join(
        || {
            share_out(mine, work);
            look_for_work(&waits);
        },
        || {
            let _waits = Awake(&waits);
            share_out(others, work);
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

/// Do what the pool has to do, until nobody wants the thread to be awake.
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
    fn every_item_is_done_once() {
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
    fn a_panic_lets_those_go_that_wait() {
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
