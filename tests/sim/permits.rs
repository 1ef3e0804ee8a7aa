//! The semaphore of a run.

#[derive(Clone, Debug)]
pub(crate) struct Permits {
    /// How many each client asks for.
    pub(super) asked: Vec<u32>,
    /// What the largest of these numbers should be.
    pub(super) agreed: u32,
}
