//! The work queue: each key once, never twice at the same time, after a failure later and later.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Keys that wait to be worked on.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// What is in `ready`.
    waiting: HashSet<K>,
    active: HashSet<K>,
    /// Came again while it was worked on.
    again: HashSet<K>,
    later: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
}

/// After the first failure; doubled with each further one.
const FIRST: Duration = Duration::from_millis(250);

/// The longest pause.
const LONGEST: Duration = Duration::from_mins(2);

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                waiting: HashSet::new(),
                active: HashSet::new(),
                again: HashSet::new(),
                later: BTreeSet::new(),
                due: HashMap::new(),
                failures: HashMap::new(),
            }),
            changed: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// Work that is due now, also if an earlier failure had it wait.
    pub fn add(&self, key: K) {
        self.state().push(key);
        self.changed.notify_one();
    }

    pub fn extend(&self, keys: impl IntoIterator<Item = K>) {
        let mut state = self.state();
        keys.into_iter().for_each(|key| state.push(key));
        drop(state);
        self.changed.notify_one();
    }

    /// Work that is due after a while, unless it is due earlier already.
    pub fn add_after(&self, key: K, pause: Duration) {
        self.state().postpone(key, Instant::now() + pause);
        self.changed.notify_one();
    }

    /// The next key. Whoever takes it says [`Queue::done`] or [`Queue::failed`] afterwards.
    pub async fn next(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let until = {
                let mut state = self.state();
                state.promote(Instant::now());
                if let Some(key) = state.pop() {
                    // Another worker may have something to do as well.
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.later.first().map(|(due, _)| *due)
            };
            match until {
                Some(due) => tokio::select! { () = changed => {}, () = sleep_until(due) => {} },
                None => changed.await,
            }
        }
    }

    pub fn done(&self, key: &K) {
        let mut state = self.state();
        state.failures.remove(key);
        state.finish(key);
        drop(state);
        self.changed.notify_one();
    }

    /// Has the key come again after a pause, which is returned.
    pub fn failed(&self, key: &K) -> Duration {
        let mut state = self.state();
        let count = state.failures.entry(key.clone()).or_default();
        *count += 1;
        let pause = pause(*count, jitter());
        state.finish(key);
        state.postpone(key.clone(), Instant::now() + pause);
        drop(state);
        self.changed.notify_one();
        pause
    }

    /// Keys that are due or worked on.
    pub fn len(&self) -> usize {
        let state = self.state();
        state.ready.len() + state.active.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    fn push(&mut self, key: K) {
        if let Some(due) = self.due.remove(&key) {
            self.later.remove(&(due, key.clone()));
        }
        if self.active.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn pop(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.active.insert(key.clone());
        Some(key)
    }

    fn finish(&mut self, key: &K) {
        self.active.remove(key);
        if self.again.remove(key) {
            self.push(key.clone());
        }
    }

    fn postpone(&mut self, key: K, due: Instant) {
        if self.waiting.contains(&key) || self.due.get(&key).is_some_and(|known| *known <= due) {
            return;
        }
        if let Some(known) = self.due.insert(key.clone(), due) {
            self.later.remove(&(known, key.clone()));
        }
        self.later.insert((due, key));
    }

    fn promote(&mut self, now: Instant) {
        while let Some((due, key)) = self.later.pop_first() {
            if due > now {
                self.later.insert((due, key));
                return;
            }
            self.due.remove(&key);
            self.push(key);
        }
    }
}

/// The pause after so many failures; `jitter` out of 256 spreads it from a half to the whole.
fn pause(failures: u32, jitter: u8) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let whole = doubled.min(LONGEST);
    whole / 2 + whole / 2 * u32::from(jitter) / 256
}

/// Every `RandomState` has keys of its own.
fn jitter() -> u8 {
    RandomState::new().hash_one(0_u8).to_le_bytes()[0]
}

/// How often each key has failed; for tests and for people.
impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    pub fn failing(&self) -> BTreeMap<K, u32> {
        let state = self.state();
        state
            .failures
            .iter()
            .map(|(key, count)| (key.clone(), *count))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_never_worked_on_twice_at_the_same_time() {
        let queue = Queue::default();
        queue.extend(["a", "b", "a"]);
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert_eq!(queue.next().await, "b");
        assert!(
            tokio::time::timeout(Duration::from_secs(5), queue.next())
                .await
                .is_err()
        );
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
        queue.done(&"a");
        queue.done(&"b");
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_and_longer_and_news_wakes_them() {
        let queue = Queue::default();
        queue.add("a");
        let mut last = Duration::ZERO;
        for _ in 0..6 {
            assert_eq!(queue.next().await, "a");
            last = queue.failed(&"a");
        }
        assert!(last >= Duration::from_secs(4), "{last:?}");
        let before = Instant::now();
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        assert_eq!(before.elapsed(), Duration::ZERO);
        queue.done(&"a");
        assert!(queue.failing().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_times_counts() {
        let queue = Queue::default();
        queue.add_after("a", Duration::from_mins(1));
        queue.add_after("a", Duration::from_secs(5));
        queue.add_after("a", Duration::from_secs(30));
        let before = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(before.elapsed().as_secs(), 5);
    }

    #[test]
    fn pauses_are_bounded() {
        assert_eq!(pause(1, 0), FIRST / 2);
        assert!(pause(u32::MAX, 255) <= LONGEST);
        assert!(pause(u32::MAX, 0) >= LONGEST / 2);
    }
}
