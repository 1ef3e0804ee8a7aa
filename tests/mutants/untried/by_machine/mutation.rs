//! switch
use std::sync::atomic::{AtomicU32, AtomicPtr, Ordering};
static NOW: AtomicU32 = AtomicU32::new(u32::MAX);
static COVER: AtomicU32 = AtomicU32::new(0);
static SEEN: [AtomicU32; 4096] = [const { AtomicU32::new(0) }; 4096];
#[inline]
pub(crate) fn of(lo: u32, hi: u32) -> u32 {
    let now = NOW.load(Ordering::Relaxed);
    if now == 0 { return 0; }
    slow(lo, hi, now)
}
#[inline(never)]
fn slow(lo: u32, hi: u32, mut now: u32) -> u32 {
    if now == u32::MAX {
        now = std::env::var("MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
        if std::env::var_os("MUTANT_COVER").is_some() { now = u32::MAX - 1; }
        NOW.store(now, Ordering::Relaxed);
    }
    if now == u32::MAX - 1 {
        if SEEN[lo as usize].swap(1, Ordering::Relaxed) == 0 {
            use std::io::Write;
            if let Some(path) = std::env::var_os("MUTANT_COVER") {
                if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
                    let _ = file.write_all(format!("{lo} {hi}\n").as_bytes());
                }
            }
        }
        return 0;
    }
    if lo <= now && now <= hi { now } else { 0 }
}
