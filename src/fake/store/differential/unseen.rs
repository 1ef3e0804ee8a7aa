//! The changes of a line of a script that no sequence shows, each with the reason.

/// All of them, as they are shown.
pub(super) fn judged() -> impl Iterator<Item = String> {
    let changes = UNSEEN.iter().flat_map(|(_, changes)| *changes);
    changes.map(|change| (*change).to_owned())
}

const UNSEEN: [(&str, &[&str]); 13] = [
    (
        "at this number both ways lead to the same: a time is set that is there already, or the same number is taken",
        &[
            "acquire_all: if redis.call('PTTL', lock) < tonumber(ARGV[2]) then redis.call('PEXPIRE', lock, ARGV[2]) end: < is <=",
            "announce: if type(announced) == 'number' and announced >= tonumber(span) then return 1 end: >= is >",
            "extend: if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end: < is <=",
            "fenced_extend: if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end: < is <=",
            "fenced_floor: if floor < open then floor = open end: < is <=",
            "fenced_release: if floor < tombstone and tombstone <= latest + 1 then floor = tombstone end: < is <=",
            "look: if not left or left == -1 or (its ~= -1 and its < left) then left = its end: < is <=",
            "look: local is_good = type(intended) == 'table' or intended >= span and intended <= 60000: >= is >",
            "readers: if its >= 0 and ends > its then redis.call('ZADD', lock, text, value) end: > is >=",
            "retake: if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end: < is <=",
        ],
    ),
    (
        "it is a short cut, or how far a look goes: the long way leads to the same",
        &[
            "all_free: if redis.pcall('EXISTS', unpack(KEYS)) == 0 then return set_all(KEYS, ARGV[1], ARGV[2]) end: left out",
            "find: if #values < 1000 then return {-2} end: # is 1 + #",
            "find: local values = redis.call('ZRANGEBYSCORE', KEYS[1], whole(now_ms()), '+inf', 'LIMIT', from, '1000'): 1000 is 1001",
            "give_back: if beside ~= 1 and beside ~= 2 then return 1 end: left out",
            "inspect: if not value then return {-2} end: left out",
            "inspect: local first = redis.call('ZRANGEBYSCORE', lock, whole(now), '+inf', 'WITHSCORES', 'LIMIT', '0', '1'): 1 is 2",
            "inspect_read: local its = last > 0 and redis.call('ZSCORE', lock, value): > is >=",
            "read: if last > 0 then redis.call('ZREMRANGEBYSCORE', lock, '-inf', '(' .. whole(now)) end: > is >=",
            "readers: local its = last > 0 and redis.call('ZSCORE', lock, value): > is >=",
            "release_all: if found[i] ~= ARGV[1] then return each(KEYS, ARGV) end: 1 is 2",
            "release_all: beside[i * 2 - 1], beside[i * 2], replies[i] = lock .. ':redlatch:waiting', lock .. ':redlatch:intent', 1: - is +",
            "release_all: beside[i * 2 - 1], beside[i * 2], replies[i] = lock .. ':redlatch:waiting', lock .. ':redlatch:intent', 1: 1 is 2",
            "release_all: beside[i * 2 - 1], beside[i * 2], replies[i] = lock .. ':redlatch:waiting', lock .. ':redlatch:intent', 1: 2 is 3",
            "release_all: beside[i * 2 - 1], beside[i * 2], replies[i] = lock .. ':redlatch:waiting', lock .. ':redlatch:intent', 1: left out",
            "release_all: if redis.pcall('EXISTS', unpack(beside)) == 0 then return replies end: left out",
            "unread: if its < last then return 1 end: left out",
        ],
    ),
    (
        "only the sign of the number counts, or whether it is -2: `TTL` has the same, and so has another number below 0",
        &[
            "inspect_read: local left = its and its - now_ms() or -1: 1 is 2",
            "look_all: if redis.call('PTTL', lock) ~= -2 then: 'PTTL' is 'TTL'",
            "read: if ARGV[3] ~= '0' and not is_string then its = tonumber(redis.call('ZSCORE', lock, value) or -1) end: 1 is 2",
            "read: its = -1: 1 is 2",
            "read: local lock, value, its = KEYS[1], ARGV[1], -1: 1 is 2 at place 3",
            "readers: return last, now_ms(), its and tonumber(its) or -1: 1 is 2",
            "refusal: if is_reader and redis.call('PTTL', lock) >= 0 then return tonumber(last[2]) end: 'PTTL' is 'TTL'",
            "scan: if not is_beside and #key <= 65536 and redis.call('PTTL', key) >= 0 then: 'PTTL' is 'TTL'",
        ],
    ),
    (
        "nothing is behind the last word or the last pair, an answer of `ZRANGE` has both of its words or none, and a member that was removed by its score is added again in either way",
        &[
            "fenced_acquire_all: for i = 1, #KEYS - 1, 2 do: 1 is 2 at place 2",
            "fenced_pass: for i = 1, #ARGV do: # is 1 + #",
            "read: its = -1: left out",
            "refusal: if not last[1] then return 0 end: 1 is 2",
        ],
    ),
    (
        "no clock of a server is within a microsecond or a ms of 1970, so no counter, no opening and no end of a reader is so small",
        &[
            "fenced_acquire_all: local found, floor = redis.call('MGET', unpack(counters)), 0: 0 is 1",
            "inspect_read: local its = last > 0 and redis.call('ZSCORE', lock, value): 0 is 1",
            "readers: if its < 0 and redis.call('ZADD', lock, 'NX', text, value) == 0 then its = tonumber(redis.call('ZSCORE', lock, value)) end: 0 is 1",
            "readers: if its < 0 and redis.call('ZADD', lock, 'NX', text, value) == 0 then its = tonumber(redis.call('ZSCORE', lock, value)) end: < is <=",
            "readers: if its >= 0 and ends > its then redis.call('ZADD', lock, text, value) end: 0 is 1",
            "readers: if its >= 0 and ends > its then redis.call('ZADD', lock, text, value) end: >= is >",
            "readers: local its = last > 0 and redis.call('ZSCORE', lock, value): 0 is 1",
            "refusal: if not last[1] then return 0 end: 0 is 1",
        ],
    ),
    (
        "no name of a lock or of a semaphore is empty",
        &[
            "give_back: local slot = string.find(lock, ':redlatch:slot:', 1, true): 1 is 2",
            "scan: local is_beside = string.find(key, ':redlatch:', 1, true) and not string.find(key, ':redlatch:slot:%d+$'): 1 is 2",
        ],
    ),
    (
        "only a server without memory, or without permission for a command, comes to this line (tests/it/faults/full.rs, tests/it/connecting/users.rs)",
        &[
            "missing: if why_not.err then return nil, why_not end: left out",
            "refusal: if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end: left out",
            "rest: redis.call('PEXPIRE', lock, left): left out",
            "rest: set(): left out",
            "scan: if failure then return failure end: left out",
            "scan: if not string.find(length.err, 'WRONGTYPE', 1, true) then return nil, {err = length.err .. ': STRLEN'} end: left out",
            "scan: if page.err then return {err = page.err .. ': SCAN'} end: left out",
        ],
    ),
    (
        "no server refuses `PEXPIREAT` for a key that is there, with such a number",
        &[
            "readers: elseif its < 0 then: 0 is 1",
            "readers: elseif its < 0 then: < is <=",
            "readers: elseif its < 0 then: left out",
            "readers: if redis.call('PTTL', lock) == -1 then: 'PTTL' is 'TTL'",
            "readers: if redis.call('PTTL', lock) == -1 then: 1 is 2",
            "readers: if redis.call('PTTL', lock) == -1 then: == is ~=",
            "readers: redis.call('DEL', lock): 'DEL' is 'EXISTS'",
            "readers: redis.call('DEL', lock): left out",
            "readers: redis.call('ZREM', lock, value): left out",
            "readers: return kept: left out",
        ],
    ),
    (
        "only a node of a cluster, or a server that does not say who it is, comes to this line (tests/it/faults/introduced.rs, tests/it/fenced/trouble.rs)",
        &[
            "fenced_gate: if not run then return {'UNKNOWN', why_not} end: left out",
            "open: if not process_id then return {'UNKNOWN', why_not} end: left out",
            "introduce: if why_not == 'CLUSTER' then return redis.status_reply(why_not) end: left out",
            "server: if not id and not why then id, why = field('replication', '\\nmaster_replid:') end: left out",
            "server: if not id and not why then id, why = field('replication', '\\nmaster_replid:') end: without not at place 2",
            "server: if string.find(info, '_mode:cluster', 1, true) then return nil, 'CLUSTER' end: 1 is 2",
            "server: if string.find(info, '_mode:cluster', 1, true) then return nil, 'CLUSTER' end: left out",
            "server: if type(info) == 'table' then return nil, string.sub(info.err, 1, 200) end: 1 is 2",
            "server: if type(info) == 'table' then return nil, string.sub(info.err, 1, 200) end: 200 is 201",
            "server: if type(info) == 'table' then return nil, string.sub(info.err, 1, 200) end: left out",
            "server: return id, why or 'INFO has neither a run_id nor a master_replid': or is and",
        ],
    ),
    (
        "since Redis 7, an error within a script is no text",
        &["fenced_pass: if type(asked) == 'string' then asked = {err = asked} end: left out"],
    ),
    (
        "a server refuses the first `SET` of a script or none, so nothing is there to be deleted",
        &[
            "set_all: for before = 1, i - 1 do redis.call('DEL', locks[before]) end: 'DEL' is 'EXISTS'",
            "set_all: for before = 1, i - 1 do redis.call('DEL', locks[before]) end: 1 is 2",
            "set_all: for before = 1, i - 1 do redis.call('DEL', locks[before]) end: 1 is 2 at place 2",
            "set_all: for before = 1, i - 1 do redis.call('DEL', locks[before]) end: left out",
        ],
    ),
    (
        "no reply of a server begins with what is looked for, so the search may begin at its second byte",
        &["server: local _, at = string.find(info, name, 1, true): 1 is 2"],
    ),
    (
        "a page may be longer or shorter by some bytes or keys",
        &[
            "scan: count = math.max(1, math.floor(count / 8)): 8 is 9",
            "scan: if is_listed then found[#found + 1], size = key, size + #key + 16 end: # is 1 + # at place 2",
            "scan: if is_listed then found[#found + 1], size = key, size + #key + 16 end: + is - at place 3",
            "scan: if is_listed then found[#found + 1], size = key, size + #key + 16 end: 16 is 17",
            "scan: if size <= 16384 or count == 1 then return found end: 16384 is 16385",
            "scan: if size <= 16384 or count == 1 then return found end: <= is <",
            "scan: local found, size = {page[1]}, 0: 0 is 1",
        ],
    ),
];
