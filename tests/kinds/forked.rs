//! The child of a fork has no lock of any kind, and gives none back.

use redlatch::Error;
use redlatch_testing::is_alone;

use crate::kinds::world::{TTL, on_fakes};
use crate::servers::threads::forks::in_a_child;

#[test]
fn the_child_of_a_fork_neither_takes_nor_extends_nor_gives_back() {
    if !is_alone("kinds::forked::the_child_of_a_fork_neither_takes_nor_extends_nor_gives_back") {
        return;
    }
    on_fakes(|world| {
        let mut guard = Some(world.take());
        in_a_child(|| {
            let guard = guard.take().unwrap();
            let calls = [
                world.call(0).try_lock(),
                world.call(0).lock(),
                world.rival(0).lock(),
            ];
            let are_refused = calls.iter().all(|call| matches!(call, Err(Error::Forked)));
            let is_extended = !matches!(guard.extend(TTL), Err(Error::Forked));
            let is_still = guard.check().is_ok() && guard.resources() == world.names();
            let is_released = !matches!(guard.unlock(), Err(Error::Forked));
            are_refused && !is_extended && is_still && !is_released
        });
        let guard = guard.unwrap();
        assert_eq!(world.with(&guard).len(), 5);
        world.assert_nobody_gets_it();
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
        world.assert_free();
    });
}
