//! What most files of the simulation use.

pub(super) use std::collections::{HashMap, HashSet, VecDeque};
pub(super) use std::ops::Range;
pub(super) use std::sync::Arc;
pub(super) use std::time::Duration;

pub(super) use redlatch_history::{Call, On, Way, What, Why};

pub(super) use super::client::Worker;
pub(super) use super::clocks::{Clockwork, MICRO, MILLI, Nanos, SECOND};
pub(super) use super::drawn::Workload;
pub(super) use super::holding::Held;
pub(super) use super::node::Node;
pub(super) use super::plan::{Kind, Plan, nanos, pick};
pub(super) use super::process::THREADS;
pub(super) use super::trouble::{Episode, Trouble};
pub(super) use super::wall::Offset;
pub(super) use super::wire::{Message, Verb};
pub(super) use super::wish::{Waits, Wish};
pub(super) use super::world::{Event, State, World};
pub(super) use crate::clock::{Timestamp, VIRTUAL_EPOCH_US};
pub(super) use crate::wire::resp::Reply;
pub(super) use crate::{Error, LockGuard};
