//! The witness: makes critical sections of what the workers told, and says what must not have been.
//!
//! Sections of readers may overlap each other. Any other section has each of its resources alone.
//!
//! A critical section begins at a reading of the clock after `lock` returned, and ends at a reading before the release
//! was called or at the end of the lease, whichever comes first. The first two err towards a shorter section, by the
//! time between two instructions (or for as long as the process was stopped there, when it could do no harm either).
//! The end of the lease errs towards a longer one, by 1 ms at most, see [`Claim::end`]. What is reported is therefore a
//! violation. Sections of workers that were killed or stopped end with their lease.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::event::{Claim, Event};
use crate::on::{Kind, On, Sharing};

/// Everything that the workers told.
#[derive(Default)]
pub(crate) struct Witness {
    sections: Vec<Section>,
    /// Where the section of a token is.
    by_token: HashMap<String, usize>,
    /// How often something was told, by its name.
    pub(crate) counts: BTreeMap<String, u32>,
    /// Guards that were over when the worker looked at them first.
    pub(crate) late: usize,
    found: Vec<String>,
}

#[derive(Clone, Debug)]
struct Section {
    worker: u32,
    on: On,
    token: String,
    ttl_ms: u64,
    start: u64,
    /// Until when the guard claims to be valid.
    claim: Claim,
    released: Option<u64>,
    /// When an extension told that the lock is lost.
    lost: Option<u64>,
}

/// What a run amounts to.
pub(crate) struct Verdict {
    pub(crate) sections: usize,
    by_kind: BTreeMap<Kind, usize>,
    /// Sections of readers that began while another reader had the resource.
    pub(crate) together: usize,
    pub(crate) overlaps: Vec<String>,
    /// Everything else that must not be.
    pub(crate) others: Vec<String>,
    /// The least time between a lease whose keys were left to expire and the next holder.
    pub(crate) closest: Option<u64>,
}

/// Those sections of one resource that end last so far.
#[derive(Default)]
struct Latest<'w> {
    /// Of those who had it alone.
    alone: Option<&'w Section>,
    reader: Option<&'w Section>,
}

impl<'w> Latest<'w> {
    /// Those that have to be over when this one begins.
    fn in_the_way_of(&self, section: &Section) -> impl Iterator<Item = &'w Section> + use<'w> {
        let reader = self.reader.filter(|_| !section.on.is_read());
        self.alone.into_iter().chain(reader)
    }

    fn add(&mut self, section: &'w Section) {
        let latest = if section.on.is_read() {
            &mut self.reader
        } else {
            &mut self.alone
        };
        if latest.is_none_or(|former| section.end() > former.end()) {
            *latest = Some(section);
        }
    }
}

impl Section {
    fn end(&self) -> u64 {
        let told = [self.released, self.lost];
        told.into_iter().flatten().fold(self.claim.end(), u64::min)
    }

    fn is_empty(&self) -> bool {
        self.end() <= self.start
    }
}

impl Witness {
    /// Takes the next event of a worker.
    #[expect(clippy::too_many_lines, reason = "one arm an event")]
    pub(crate) fn hear(&mut self, worker: u32, event: Event) {
        match event {
            Event::Locked {
                on,
                token,
                ttl_ms,
                returned,
                spent,
                claim,
            } => {
                if self.by_token.contains_key(&token) {
                    self.wrong(format!("worker {worker} was given the token {token} again"));
                }
                if token.contains('.') {
                    self.count("locks handed over");
                    if !on.is_ordinary() {
                        self.wrong(format!(
                            "worker {worker}, token {token}: {on} was handed over"
                        ));
                    }
                }
                // A process can be stopped after the guard was returned, so this is none of the lock's doing.
                let Some(claim) = claim else {
                    self.late += 1;
                    return;
                };
                if claim.low > longest_end(returned - spent, ttl_ms) {
                    self.wrong(format!(
                        "worker {worker}, token {token}: {} is claimed at {} with a ttl of {ttl_ms} ms, \
                         of which the nodes took {spent} ns",
                        at(claim.low),
                        at(returned)
                    ));
                }
                self.by_token.insert(token.clone(), self.sections.len());
                self.sections.push(Section {
                    worker,
                    on,
                    token,
                    ttl_ms,
                    start: returned,
                    claim,
                    released: None,
                    lost: None,
                });
            }
            Event::Refused(why) => self.count(&format!("locks refused as {why}")),
            Event::Extended {
                token,
                ttl_ms,
                returned,
                claim,
            } => {
                self.count("extensions");
                if let (Some(section), Some(claim)) = (self.section(&token), claim) {
                    let former = std::mem::replace(&mut section.claim, claim);
                    let most = longest_end(returned, ttl_ms).max(former.high);
                    if claim.high < former.low || claim.low > most {
                        self.wrong(format!(
                            "worker {worker}, token {token}: an extension at {} by {ttl_ms} ms moved the end \
                             from {} to {}",
                            at(returned),
                            at(former.low),
                            at(claim.low)
                        ));
                    }
                }
            }
            Event::NotExtended {
                token,
                returned,
                why,
            } => {
                self.count(&format!("extensions refused as {why}"));
                self.lost(worker, &token, returned, &why);
            }
            Event::Releasing { token, at } => {
                self.count("releases");
                if let Some(section) = self.section(&token) {
                    section.released = Some(at);
                }
            }
            Event::Unlocked {
                token,
                returned,
                outcome,
            } => {
                self.count(&format!("unlocks: {outcome}"));
                self.lost(worker, &token, returned, &outcome);
            }
            Event::Wrong(text) => self.wrong(format!("worker {worker}: {text}")),
            Event::Done => {}
        }
    }

    /// When each of the resources was first taken after `time`, by readers and by those who have it alone.
    pub(crate) fn acquired_after(&self, time: u64) -> BTreeMap<(u32, Sharing), u64> {
        let mut first = BTreeMap::new();
        for section in self.sections.iter().filter(|s| s.start >= time) {
            for &resource in &section.on.resources {
                let what = (resource, section.on.sharing());
                let earliest = first.entry(what).or_insert(section.start);
                *earliest = section.start.min(*earliest);
            }
        }
        first
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let mut sections: Vec<&Section> = self.sections.iter().filter(|s| !s.is_empty()).collect();
        sections.sort_by_key(|section| section.start);
        let mut verdict = Verdict {
            sections: sections.len(),
            by_kind: BTreeMap::new(),
            together: 0,
            overlaps: Vec::new(),
            others: self.found.clone(),
            closest: None,
        };
        let mut all: HashMap<u32, Latest<'_>> = HashMap::new();
        for section in sections {
            *verdict.by_kind.entry(section.on.kind).or_default() += 1;
            for &resource in &section.on.resources {
                let latest = all.entry(resource).or_default();
                for former in latest.in_the_way_of(section) {
                    verdict.compare(resource, former, section);
                }
                let reader = latest.reader.filter(|_| section.on.is_read());
                if reader.is_some_and(|reader| reader.end() > section.start) {
                    verdict.together += 1;
                }
                latest.add(section);
            }
        }
        verdict
    }

    /// Takes the word that a lock is lost, which must not be before its lease has ended: its quorum keeps the keys.
    fn lost(&mut self, worker: u32, token: &str, returned: u64, why: &str) {
        if !why.starts_with("lost") {
            return;
        }
        let Some(section) = self.section(token) else {
            return;
        };
        if section.lost.is_none() && returned < section.claim.low {
            section.lost = Some(returned);
            let claimed = section.claim.low;
            self.wrong(format!(
                "worker {worker}, token {token}: {why} at {}, and the lease was to end at {}",
                at(returned),
                at(claimed)
            ));
        }
    }

    fn section(&mut self, token: &str) -> Option<&mut Section> {
        let i = *self.by_token.get(token)?;
        self.sections.get_mut(i)
    }

    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Notes something that must not be, which another part of the test saw.
    pub(crate) fn wrong(&mut self, text: String) {
        self.found.push(text);
    }
}

impl Verdict {
    /// How many sections were of this kind.
    pub(crate) fn of(&self, kind: Kind) -> usize {
        self.by_kind.get(&kind).copied().unwrap_or_default()
    }

    /// Takes two sections on one resource that must not overlap; the former one began first.
    fn compare(&mut self, resource: u32, former: &Section, section: &Section) {
        if section.start < former.end() {
            let what = match (former.on.sharing(), section.on.sharing()) {
                (Sharing::Alone, Sharing::Read) => "was read by one while another had it alone",
                (Sharing::Read, _) => "was taken by one alone while another read it",
                (Sharing::Alone, Sharing::Alone) => "was held twice",
            };
            self.overlaps.push(format!(
                "resource {resource} {what}, for {} ns:\n    {former}\n    {section}",
                former.end().min(section.end()) - section.start
            ));
        } else if former.released.is_none_or(|at| at > section.start) {
            let gap = section.start - former.end();
            self.closest = Some(self.closest.map_or(gap, |least| least.min(gap)));
        }
    }
}

/// A lease is the ttl less the drift, 1 % and 2 ms, and begins before `lock` or `extend` returns.
fn longest_end(returned: u64, ttl_ms: u64) -> u64 {
    (returned + ttl_ms * 990_000).saturating_sub(2_000_000)
}

/// A time for people, in seconds.
fn at(nanos: u64) -> String {
    format!("{}.{:09} s", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "worker {}, token {}, on {}, ttl {} ms: locked at {}, claimed until {} ({} ns sharp), released {}, lost {}",
            self.worker,
            self.token,
            self.on,
            self.ttl_ms,
            at(self.start),
            at(self.claim.end()),
            self.claim.high - self.claim.low,
            self.released.map_or("never".into(), at),
            self.lost.map_or("never".into(), at),
        )
    }
}
