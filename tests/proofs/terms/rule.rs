//! The rules, and those of which a part is missing.

/// The rule, or one without a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    AsItIs,
    /// A node that was sent an undo is healed as well.
    HealsUndone,
    /// Votes of an extension count also when the old end has come before they are all there.
    CountsAfterTheEnd,
    /// A heal replaces another client's key.
    HealsTaken,
    /// No undo is sent behind a heal whose reply does not come.
    NoUndo,
    /// A heal that is under way when the lock is given back is not undone.
    KeeperForgets,
    /// A node that is being healed is passed on to the next holder.
    PassesOn,
    /// A reader is granted while a writer's key is there.
    ReadsPastWriters,
    /// A node that has lost its data grants readers at once.
    ReadsInQuarantine,
    /// A reader does not raise the counter.
    ReadersDontCount,
    /// A node grants several resources if one of them is free.
    SetOnHalf,
    /// The release of several resources deletes the first key only.
    LeavesOneKey,
    /// A pass sets the new key whatever is there.
    PassesBlindly,
    /// A guard is valid until its pass has arrived.
    PassesTooEarly,
    /// A key that rests ends before the minimum is over.
    RestsTooShort,
    /// A rest takes the place of any key.
    RestsBlindly,
    /// One node is enough for a rest.
    RestsOnOne,
    /// The key of a rest never expires.
    RestsForEver,
    /// An extension makes a key one that never expires.
    ExtendsForEver,
    /// A node that has lost its data grants nothing any more.
    NeverOpens,
}
