//! The locks and atomics of `sync.rs` in unit tests, with a point before and after each operation.
//!
//! At a point the simulation may let another of its coroutines go on. All of them are on one thread of the system, so a mutex
//! that another coroutine has is not waited for: the coroutine sleeps until it is unlocked. On a thread that has no simulation,
//! the points do nothing.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use parking_lot::WaitTimeoutResult;

/// Where a point is: beside which operation, by its place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Point {
    pub(crate) line: &'static Location<'static>,
    pub(crate) side: Side,
    /// The address of what the operation is on. It is the same only while that exists.
    pub(crate) object: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Before,
    After,
    /// After the unlock of the mutex that was locked on that line.
    Unlocked,
}

/// What lets others go on at a point.
pub(crate) trait Scheduler {
    /// Perhaps lets others go on.
    fn pass(&self, point: Point);

    /// Lets others go on until this mutex was unlocked.
    fn wait_for(&self, mutex: usize);

    fn unlocked(&self, mutex: usize);

    /// Notes on which condition variable the running coroutine waits: none at the end of the wait.
    fn listen(&self, condvar: Option<usize>);

    fn notified(&self, condvar: usize);
}

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static SCHEDULER: RefCell<Option<Rc<dyn Scheduler>>> = const { RefCell::new(None) };
}

/// Has the points of this thread call the scheduler, during `job`.
pub(crate) fn scheduled<T>(scheduler: &Rc<dyn Scheduler>, job: impl FnOnce() -> T) -> T {
    SCHEDULER.set(Some(Rc::clone(scheduler)));
    IS_ON.set(true);
    let result = job();
    IS_ON.set(false);
    SCHEDULER.set(None);
    result
}

fn scheduler() -> Option<Rc<dyn Scheduler>> {
    if !IS_ON.get() {
        return None;
    }
    // No borrow lasts while another coroutine runs.
    SCHEDULER.with_borrow(Clone::clone)
}

#[track_caller]
fn pass(side: Side, object: usize) {
    if IS_ON.get() {
        pass_at(Location::caller(), side, object);
    }
}

fn pass_at(line: &'static Location<'static>, side: Side, object: usize) {
    if let Some(scheduler) = scheduler() {
        scheduler.pass(Point { line, side, object });
    }
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

pub(crate) struct MutexGuard<'m, T> {
    mutex: &'m Mutex<T>,
    /// None while the guard has unlocked the mutex for a time, and at the end of its drop.
    inner: Option<parking_lot::MutexGuard<'m, T>>,
    line: &'static Location<'static>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let line = Location::caller();
        MutexGuard {
            mutex: self,
            inner: Some(beside(&self.0, || self.take())),
            line,
        }
    }

    fn take(&self) -> parking_lot::MutexGuard<'_, T> {
        while let Some(scheduler) = scheduler() {
            if let Some(inner) = self.0.try_lock() {
                return inner;
            }
            scheduler.wait_for(address(&self.0));
        }
        self.0.lock()
    }
}

impl<'m, T> MutexGuard<'m, T> {
    pub(crate) fn unlocked<U>(guard: &mut Self, job: impl FnOnce() -> U) -> U {
        guard.unlock();
        let result = job();
        guard.inner = Some(guard.mutex.take());
        result
    }

    fn unlock(&mut self) {
        drop(self.inner.take());
        if let Some(scheduler) = scheduler() {
            scheduler.unlocked(address(&self.mutex.0));
        }
        pass_at(self.line, Side::Unlocked, address(&self.mutex.0));
    }

    fn inner(&mut self) -> &mut parking_lot::MutexGuard<'m, T> {
        self.inner.as_mut().unwrap()
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.inner.is_some() {
            self.unlock();
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().unwrap()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(parking_lot::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    #[track_caller]
    pub(crate) fn notify_one(&self) {
        beside(&self.0, || self.notify(parking_lot::Condvar::notify_one));
    }

    #[track_caller]
    pub(crate) fn notify_all(&self) {
        beside(&self.0, || self.notify(parking_lot::Condvar::notify_all));
    }

    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        span: Duration,
    ) -> WaitTimeoutResult {
        self.0.wait_for(guard.inner(), span)
    }

    fn notify<T>(&self, how: fn(&parking_lot::Condvar) -> T) {
        how(&self.0);
        if let Some(scheduler) = scheduler() {
            scheduler.notified(address(&self.0));
        }
    }
}

fn address<T>(object: &T) -> usize {
    ptr::from_ref(object).addr()
}

/// As in `sync.rs`. A notification ends the wait.
pub(crate) fn while_unlocked<T>(
    condvar: &Condvar,
    guard: &mut MutexGuard<'_, T>,
    wait: impl FnOnce(),
) {
    // Before the mutex is unlocked, as the wait of the system does both in one step.
    let listen = |to| {
        if let Some(scheduler) = scheduler() {
            scheduler.listen(to);
        }
    };
    listen(Some(address(&condvar.0)));
    MutexGuard::unlocked(guard, wait);
    listen(None);
}

/// An operation on this object between two points.
#[track_caller]
fn beside<O, T>(object: &O, operation: impl FnOnce() -> T) -> T {
    let object = address(object);
    pass(Side::Before, object);
    let result = operation();
    pass(Side::After, object);
    result
}

macro_rules! atomics {
    ($($atomic:ident: $value:ty {
        $($name:ident($($argument:ident: $type:ty),+) $(-> $result:ty)?;)+
    })+) => {$(
        #[derive(Debug, Default)]
        pub(crate) struct $atomic(atomic::$atomic);

        impl $atomic {
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$atomic::new(value))
            }

            $(#[track_caller]
            pub(crate) fn $name(&self, $($argument: $type),+) $(-> $result)? {
                beside(&self.0, || self.0.$name($($argument),+))
            })+
        }
    )+};
}

atomics! {
    AtomicBool: bool {
        load(order: Ordering) -> bool;
        store(value: bool, order: Ordering);
    }
    AtomicU32: u32 {
        load(order: Ordering) -> u32;
        compare_exchange(from: u32, to: u32, success: Ordering, failure: Ordering) -> Result<u32, u32>;
        fetch_sub(value: u32, order: Ordering) -> u32;
        fetch_update(set: Ordering, fetch: Ordering, to: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32>;
    }
    AtomicU64: u64 {
        load(order: Ordering) -> u64;
        store(value: u64, order: Ordering);
        swap(value: u64, order: Ordering) -> u64;
        compare_exchange(from: u64, to: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
        fetch_add(value: u64, order: Ordering) -> u64;
        fetch_max(value: u64, order: Ordering) -> u64;
        fetch_update(set: Ordering, fetch: Ordering, to: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64>;
    }
}

#[derive(Debug)]
pub(crate) struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    #[track_caller]
    pub(crate) fn get(&self) -> Option<&T> {
        beside(&self.0, || self.0.get())
    }

    /// `make` passes no point: another coroutine could not wait for it.
    #[track_caller]
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        beside(&self.0, || self.0.get_or_init(make))
    }
}
