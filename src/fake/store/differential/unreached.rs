//! The branches of the scripts that no sequence can take, each with the reason.

/// Whether it is known why this branch is not taken.
pub(super) fn is_known(place: &str) -> bool {
    UNREACHED.iter().any(|(_, places)| places.contains(&place))
}

/// The listed branches that are none of those which were missed: they were taken, or are not there any more.
pub(super) fn stale(missed: &[&str], errors_are_texts: bool) -> Vec<&'static str> {
    let all = UNREACHED.iter();
    let lists = all.filter(|(reason, _)| !(errors_are_texts && *reason == NO_TEXTS));
    let places = lists.flat_map(|(_, places)| places.iter().copied());
    places.filter(|place| !missed.contains(place)).collect()
}

const NO_TEXTS: &str = "since Redis 7, an error within a script is no text, and no client sends what Lua can't compute";

const UNREACHED: [(&str, &[&str]); 5] = [
    (
        "what stands in front of the `or` is never false: it is there to be the result, or the lock is free by then",
        &[
            "fenced_acquire: return other[1] == -2 and why_not or other: or 2 because of the last",
            "give_back: local name = slot and string.sub(lock, 1, slot - 1) or lock: or 2 because of the last",
            "inspect_read: if not last then return why_not.err and why_not or {-2} end: or 2 because of the last",
            "inspect_read: local left = its and its - now_ms() or -1: or 2 because of the last",
            "readers: if not last then return nil, why_not.err and why_not or refusal(lock, redis.pcall('GET', lock)) end: or 2 because of the last",
            "readers: return last, now_ms(), its and tonumber(its) or -1: or 2 because of the last",
            "refusal: if type(value) == 'string' then return {left, #value > (left == -1 and 39 or 40) and #value < 274 and value or nil} end: or 2 because of the last",
            "refusal: if type(value) == 'string' then return {left, #value > (left == -1 and 39 or 40) and #value < 274 and value or nil} end: or 5 because of the last",
        ],
    ),
    (
        "only a server that executes no such command for this user, or not now, answers so: no memory, no permission (tests/it/faults/full.rs, tests/it/connecting/users.rs)",
        &[
            "inspect_read: if not last then return why_not.err and why_not or {-2} end: and 1 reached",
            "inspect_read: if not last then return why_not.err and why_not or {-2} end: or 2 not needed",
            "missing: if why_not.err then return nil, why_not end: true",
            "readers: if not last then return nil, why_not.err and why_not or refusal(lock, redis.pcall('GET', lock)) end: and 1 reached",
            "readers: if not last then return nil, why_not.err and why_not or refusal(lock, redis.pcall('GET', lock)) end: or 2 not needed",
            "refusal: if last.err then return nil, string.find(last.err, 'WRONGTYPE', 1, true) and {-3} or last end: and 1 not reached",
            "refusal: if last.err then return nil, string.find(last.err, 'WRONGTYPE', 1, true) and {-3} or last end: or 2 reached",
            "refusal: if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end: true",
            "refusal: return type(count) == 'table' and count or {left, count}: and 1 reached",
            "refusal: return type(count) == 'table' and count or {left, count}: or 2 not needed",
            "refusal: return type(count) == 'table' and count or {left, count}: or 2 because of the last",
            "rest: if set().err then: true",
            "rest: redis.call('PEXPIRE', lock, left): executed",
            "rest: set(): executed",
            "scan: if not string.find(length.err, 'WRONGTYPE', 1, true) then return nil, {err = length.err .. ': STRLEN'} end: true",
            "scan: return last, why_not and why_not.err and {err = why_not.err .. ': ZRANGE'}: and 2 reached",
            "scan: if page.err then return {err = page.err .. ': SCAN'} end: true",
            "scan: if failure then return failure end: true",
            "pass: if redis.pcall('EXISTS', lock .. ':redlatch:waiting') == 1 and give_back(lock) == 2 then return 2 end: false by the last",
            "set_all: for before = 1, i - 1 do redis.call('DEL', locks[before]) end: do",
        ],
    ),
    (
        "`PTTL`, `PEXPIRE` and `PEXPIREAT` of a key that is there, with such a number, are never refused",
        &[
            "announce: if type(announced) == 'number' and announced >= tonumber(span) then return 1 end: and 1 not reached",
            "look: if type(rung) == 'number' and rung >= 0 then left = rung end: and 1 not reached",
            "look: local is_good = type(intended) == 'table' or intended >= span and intended <= 60000: or 1 not needed",
            "look_read: if type(intended) == 'number' and intended >= 0 and intended <= 60000 then left = intended end: and 1 not reached",
            "readers: if kept == 1 then return end: false by the last",
            "readers: if redis.call('PTTL', lock) == -1 then: executed",
            "readers: if redis.call('PTTL', lock) == -1 then: true",
            "readers: if redis.call('PTTL', lock) == -1 then: false by the last",
            "readers: redis.call('DEL', lock): executed",
            "readers: elseif its < 0 then: true",
            "readers: elseif its < 0 then: false by the last",
            "readers: redis.call('ZREM', lock, value): executed",
            "readers: return kept: executed",
            "ring: if length > most or redis.pcall('PEXPIRE', bell, span) ~= 1 then redis.pcall('DEL', bell) end: true by the last",
        ],
    ),
    (
        "a node of a cluster, or a server that does not say who it is (tests/it/faults/introduced.rs, tests/it/fenced/trouble.rs)",
        &[
            "fenced_gate: if not run then return {'UNKNOWN', why_not} end: true",
            "introduce: if why_not == 'CLUSTER' then return redis.status_reply(why_not) end: true",
            "open: if not process_id then return {'UNKNOWN', why_not} end: true",
            "server: if type(info) == 'table' then return nil, string.sub(info.err, 1, 200) end: true",
            "server: if string.find(info, '_mode:cluster', 1, true) then return nil, 'CLUSTER' end: true",
            "server: return at and string.match(info, '^(%w+)%s', at + 1): and 1 not reached",
            "server: if not id and not why then id, why = field('replication', '\\nmaster_replid:') end: and 1 reached",
            "server: if not id and not why then id, why = field('replication', '\\nmaster_replid:') end: true",
            "server: if not id and not why then id, why = field('replication', '\\nmaster_replid:') end: false by the last",
            "server: return id, why or 'INFO has neither a run_id nor a master_replid': or 1 not needed",
        ],
    ),
    (
        NO_TEXTS,
        &["fenced_pass: if type(asked) == 'string' then asked = {err = asked} end: true"],
    ),
];
