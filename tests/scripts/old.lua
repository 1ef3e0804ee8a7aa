--- refusal
local function whole(number) return string.format('%.0f', number) end
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function last_end(lock)
  local last = redis.pcall('ZRANGE', lock, '-1', '-1', 'WITHSCORES')
  if last.err then return nil, string.find(last.err, 'WRONGTYPE', 1, true) and {-3} or last end
  if not last[1] then return 0 end
  local token, behind = string.match(last[1], '^(%x+)(.?)')
  local is_reader = token and #token == 40 and (behind == '' or behind == ' ')
  is_reader = is_reader and #last[2] < 16 and string.find(last[2], '^[1-9]%d*$')
  if is_reader and redis.call('PTTL', lock) >= 0 then return tonumber(last[2]) end
  return nil, is_reader and {-1, string.sub(last[1], 1, 274)} or {-3}
end
local function refusal(lock, value)
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  local left = redis.call('PTTL', lock)
  if type(value) == 'string' then return {left, #value > (left == -1 and 39 or 40) and #value < 274 and value or nil} end
  if left == -2 then return {-2} end
  local last, why_not = last_end(lock)
  if not last then return why_not end
  local count = redis.pcall('ZCOUNT', lock, whole(now_ms()), '+inf')
  return type(count) == 'table' and count or {left, count}
end
--- ring
local function ring(bell, most, span, ...)
  local length = redis.pcall('RPUSH', bell, ...)
  if type(length) ~= 'number' then return 1 end
  if length > most or redis.pcall('PEXPIRE', bell, span) ~= 1 then redis.pcall('DEL', bell) end
  return 2
end
local function wake_one(name, slot)
  local bell = name .. ':redlatch:bell'
  if not slot and redis.pcall('EXISTS', bell) ~= 0 then return 2 end
  return ring(bell, 8, '500', '1')
end
local function wake_alone(name)
  if redis.pcall('SISMEMBER', name .. ':redlatch:waiting', '1') ~= 1 then return 1 end
  return wake_one(name)
end
--- give_back
local function wake(lock, undo)
  local slot = string.find(lock, ':redlatch:slot:', 1, true)
  local name = slot and string.sub(lock, 1, slot - 1) or lock
  local waiting, intent = name .. ':redlatch:waiting', name .. ':redlatch:intent'
  local beside = redis.pcall('EXISTS', waiting, intent)
  if beside ~= 1 and beside ~= 2 then return 1 end
  if not slot then
    local intended = undo and redis.pcall('PTTL', intent)
    if type(intended) == 'number' and intended >= 0 and intended <= 60000 then return wake_alone(name) end
    redis.pcall('DEL', intent)
    local ones = {'1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1'}
    if redis.pcall('SREM', waiting, 'r') == 1 and ring(name .. ':redlatch:bell:read', 16, '30', unpack(ones)) == 2 then return 2 end
  end
  if redis.pcall('EXISTS', waiting) ~= 1 then return 1 end
  return wake_one(name, slot)
end
local function give_back(lock, undo)
  redis.call('DEL', lock)
  return wake(lock, undo)
end
--- release
-- KEYS: 1 lock   ARGV: 1 token 2 undo
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then return give_back(KEYS[1], ARGV[2]) end
return refusal(KEYS[1], value)
--- rest
local function give_back(lock)
  local left = ARGV[#ARGV]
  local function set() return redis.pcall('SET', lock, 'rest:' .. ARGV[1], 'PX', left) end
  if set().err then
    redis.call('PEXPIRE', lock, left)
    set()
  end
  return 1
end
--- extend
-- KEYS: 1 lock   ARGV: 1 token 2 ttl_ms
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 1
end
return refusal(KEYS[1], value)
--- retake
-- KEYS: 1 lock   ARGV: 1 token 2 ttl_ms
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return redis.status_reply('OK')
end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
--- set_all
local function set_all(locks, value, ttl)
  for i, lock in ipairs(locks) do
    local set = redis.pcall('SET', lock, value, 'PX', ttl)
    if set.err then
      for before = 1, i - 1 do redis.call('DEL', locks[before]) end
      return set
    end
  end
  return redis.status_reply('OK')
end
--- all_free
if redis.pcall('EXISTS', unpack(KEYS)) == 0 then return set_all(KEYS, ARGV[1], ARGV[2]) end
--- missing
local function missing(locks, value, again)
  local free, ours = {}, {}
  local is_free = redis.pcall('EXISTS', unpack(locks)) == 0
  for i, lock in ipairs(locks) do
    local found = not is_free and redis.pcall('GET', lock)
    if is_free then
      free[i] = i
    elseif found ~= value or again ~= '1' then
      local why_not = refusal(lock, found)
      if why_not.err then return nil, why_not end
      if why_not[1] ~= -2 then return nil, {i, why_not} end
      free[#free + 1] = i
    else
      ours[#ours + 1] = lock
    end
  end
  return free, ours
end
--- acquire_all
-- KEYS: the locks   ARGV: 1 value 2 ttl_ms 3 again
local free, ours = missing(KEYS, ARGV[1], ARGV[3])
if not free then return ours end
local locks = {}
for _, i in ipairs(free) do locks[#locks + 1] = KEYS[i] end
local set = set_all(locks, ARGV[1], ARGV[2])
if set.err then return set end
for _, lock in ipairs(ours) do
  if redis.call('PTTL', lock) < tonumber(ARGV[2]) then redis.call('PEXPIRE', lock, ARGV[2]) end
end
return set
--- each
local function each(KEYS, ARGV)
  local replies = {}
  for i, lock in ipairs(KEYS) do
    local _, reply = pcall(one, {lock}, ARGV)
    replies[i] = type(reply) == 'string' and {err = reply} or reply
  end
  return replies
end
--- release_all
-- KEYS: the locks   ARGV: 1 value 2 undo
local found, beside, replies = redis.pcall('MGET', unpack(KEYS)), {}, {}
for i, lock in ipairs(KEYS) do
  if found[i] ~= ARGV[1] then return each(KEYS, ARGV) end
  beside[i * 2 - 1], beside[i * 2], replies[i] = lock .. ':redlatch:waiting', lock .. ':redlatch:intent', 1
end
redis.call('DEL', unpack(KEYS))
if redis.pcall('EXISTS', unpack(beside)) == 0 then return replies end
for i, lock in ipairs(KEYS) do replies[i] = wake(lock, ARGV[2]) end
return replies
--- announce
local function announce(name, member, span)
  local waiting = name .. ':redlatch:waiting'
  local added = redis.pcall('SADD', waiting, member)
  if type(added) == 'table' then return 0 end
  if added == 1 and member == 'r' then redis.pcall('DEL', name .. ':redlatch:bell:read') end
  local announced = redis.pcall('PTTL', waiting)
  if type(announced) == 'number' and announced >= tonumber(span) then return 1 end
  if redis.pcall('PEXPIRE', waiting, span) == 1 then return 1 end
  redis.pcall('DEL', waiting)
  return 0
end
--- look
-- KEYS: 1 lock or semaphore   ARGV: 1 announced_ms 2 when_free 3 permits, of a semaphore
local left, free = nil, ARGV[3] and ''
if not free then left = redis.call('PTTL', KEYS[1]) end
for slot = 0, (ARGV[3] or 0) - 1 do
  local its = redis.call('PTTL', KEYS[1] .. ':redlatch:slot:' .. slot)
  free = free .. (its == -2 and '1' or '0')
  if not left or left == -1 or (its ~= -1 and its < left) then left = its end
end
if left == -2 and not free then
  local rung = redis.pcall('PTTL', KEYS[1] .. ':redlatch:bell:read')
  if type(rung) == 'number' and rung >= 0 then left = rung end
end
if left == -2 and ARGV[2] == '1' and redis.pcall('EXISTS', KEYS[1] .. ':redlatch:bell') == 1 then return {-3, 0, free} end
if ARGV[1] == '0' or (left < 0 and ARGV[2] == '0') then return {left, 0, free} end
if not free and (ARGV[2] == '2' or left >= 0 and redis.pcall('TYPE', KEYS[1]).ok == 'zset') then
  if ARGV[2] == '1' then
    left = math.min(left, 20)
  else
    local intent, span = KEYS[1] .. ':redlatch:intent', math.min(ARGV[1], 60000)
    local intended = redis.pcall('PTTL', intent)
    local is_good = type(intended) == 'table' or intended >= span and intended <= 60000
    if not is_good then redis.pcall('SET', intent, '1', 'PX', span) end
    if ARGV[2] == '2' then return {left, 0} end
  end
end
return {left, announce(KEYS[1], '1', ARGV[1]), free}
--- readers
local function find(lock, value)
  local last, why_not = last_end(lock)
  if not last then return nil, why_not.err and why_not or refusal(lock, redis.pcall('GET', lock)) end
  local its = last > 0 and redis.call('ZSCORE', lock, value)
  return last, now_ms(), its and tonumber(its) or -1
end
local function keep(lock, value, ends, last, its)
  if ends >= 1e15 then return {err = "ERR invalid expire time in 'pexpireat' command"} end
  local text = whole(ends)
  if its < 0 and redis.call('ZADD', lock, 'NX', text, value) == 0 then its = tonumber(redis.call('ZSCORE', lock, value)) end
  if its >= 0 and ends > its then redis.call('ZADD', lock, text, value) end
  if ends <= last then return end
  local kept = redis.pcall('PEXPIREAT', lock, text)
  if kept == 1 then return end
  if redis.call('PTTL', lock) == -1 then
    redis.call('DEL', lock)
  elseif its < 0 then
    redis.call('ZREM', lock, value)
  end
  return kept
end
--- read
-- KEYS: 1 lock   ARGV: 1 value 2 ttl_ms 3 again
local lock, value, its = KEYS[1], ARGV[1], -1
local is_string, last, why_not = redis.call('TYPE', lock).ok == 'string', nil, nil
if not is_string then last, why_not = last_end(lock) end
if why_not then return why_not end
local now = now_ms()
if ARGV[3] ~= '0' and not is_string then its = tonumber(redis.call('ZSCORE', lock, value) or -1) end
if its < now then
  its = -1
  local intended = ARGV[3] ~= '2' and redis.pcall('PTTL', lock .. ':redlatch:intent')
  if type(intended) == 'number' and intended >= 0 and intended <= 60000 then return {intended, -1} end
end
if is_string then return refusal(lock, redis.pcall('GET', lock)) end
local ends = now + ARGV[2]
if ends <= now then return {err = "ERR invalid expire time in 'pexpireat' command"} end
if last > 0 then redis.call('ZREMRANGEBYSCORE', lock, '-inf', '(' .. whole(now)) end
return keep(lock, value, ends, last, its) or redis.status_reply('OK')
--- unread
-- KEYS: 1 lock   ARGV: 1 value
local lock, value = KEYS[1], ARGV[1]
local last, now, its = find(lock, value)
if not last then return now end
if its < now then return {-2} end
redis.call('ZREM', lock, value)
if its < last then return 1 end
local next = redis.call('ZRANGE', lock, '-1', '-1', 'WITHSCORES')[2]
if next and tonumber(next) >= now then
  if tonumber(next) < last then redis.pcall('PEXPIREAT', lock, whole(math.max(next, now + 1))) end
  return 1
end
if next then redis.call('DEL', lock) end
return wake_alone(lock)
--- reread
-- KEYS: 1 lock   ARGV: 1 value 2 ttl_ms
local lock, value = KEYS[1], ARGV[1]
local last, now, its = find(lock, value)
if not last then return now end
if its < now then return {-2} end
local ends = now + ARGV[2]
redis.call('ZREMRANGEBYSCORE', lock, '-inf', '(' .. whole(now))
return keep(lock, value, ends, last, its) or 1
--- server
local function field(section, name)
  local info = redis.pcall('INFO', section)
  if type(info) == 'table' then return nil, string.sub(info.err, 1, 200) end
  if string.find(info, '_mode:cluster', 1, true) then return nil, 'CLUSTER' end
  local _, at = string.find(info, name, 1, true)
  return at and string.match(info, '^(%w+)%s', at + 1)
end
local function process()
  local id, why = field('server', '\nrun_id:')
  if not id and not why then id, why = field('replication', '\nmaster_replid:') end
  return id, why or 'INFO has neither a run_id nor a master_replid'
end
--- fenced_gate
local function gate(key, marker, quarantine_ms, config)
  local run, why_not = process()
  if not run then return {'UNKNOWN', why_not} end
  local time = redis.call('TIME')
  local now, ours = time[1] * 1000000 + time[2], run .. '|' .. config .. '|'
  local open, why = nil, 'new'
  if marker then
    if string.find(marker, ours, 1, true) == 1 then open, why = string.match(marker, '^(%d+)|(%l+)$', #ours + 1) end
    if not open then
      local its, at = string.match(marker, '^[^|]+|([^|]+)|(%d+)|%l+$')
      if not its or #at > 16 then return {'MARKER'} end
      if its ~= config then return {'CONFIG', string.sub(its, 1, 200)} end
      why = 'reborn'
    elseif #open > 16 then return {'MARKER'} end
  end
  if not open then
    open = string.format('%.0f', now + quarantine_ms * 1000)
    if not redis.call('SET', key, ours .. open .. '|' .. why, marker and 'XX' or 'NX') then return {'MARKER'} end
  end
  open = tonumber(open)
  if now < open then return {'CLOSED', open - now, why} end
  return nil, now, open
end
--- fenced_floor
local function floor_of(counter, now, ARGV)
  local span = ARGV[4] * 1000
  if not counter then return now - ARGV[5] * 1000 + span end
  if #counter > 16 or not string.find(counter, '^%d+$') then return nil, {'COUNTER'} end
  local floor = tonumber(counter)
  if floor > now + span + 1 then return nil, {'FUTURE', floor - now} end
  return floor
end
local function stale(floor, now, open, ARGV)
  local token = tonumber(ARGV[3])
  if token > now + ARGV[4] * 1000 then return {'SKEW', now} end
  if floor < open then floor = open end
  if token - ARGV[8] <= floor then return {'STALE', floor} end
end
--- fenced_acquire
-- KEYS: 1 lock 2 counter 3 marker   ARGV: 1 value 2 ttl_ms 3 token 4 quarantine_ms 5 idle_ms 6 config 7 again 8 reserve
local lock, counter_key = KEYS[1], KEYS[2]
local found = redis.call('MGET', lock, counter_key, KEYS[3])
local value, counter = found[1], found[2]
local closed, now, open = gate(KEYS[3], found[3], ARGV[4], ARGV[6])
if closed then return closed end
if value then
  if value == ARGV[1] and ARGV[7] == '1' then return redis.status_reply('OK') end
  return refusal(lock, value)
end
local floor, why_not = floor_of(counter, now, ARGV)
why_not = why_not or stale(floor, now, open, ARGV)
if not why_not and not redis.call('SET', counter_key, ARGV[3], 'PX', ARGV[5], counter and 'XX' or 'NX') then why_not = {'COUNTER'} end
if not why_not then
  local set = redis.call('SET', lock, ARGV[1], 'PX', ARGV[2], 'NX')
  if set then return set end
  if counter then
    redis.call('SET', counter_key, counter, 'PX', ARGV[5])
  else
    redis.call('DEL', counter_key)
  end
end
local other = refusal(lock, false)
return other[1] == -2 and why_not or other
--- fenced_extend
-- KEYS: 1 lock 2 counter 3 marker   ARGV: 1 value 2 ttl_ms 3 token 4 idle_ms
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
  return 1
end
if value then return refusal(KEYS[1], value) end
if redis.pcall('GET', KEYS[2]) ~= ARGV[3] then return {-2} end
local run, open = string.match(redis.call('GET', KEYS[3]) or '', '^([^|]+)|[^|]+|(%d+)|%l+$')
if not run or run ~= process() or tonumber(open) >= tonumber(ARGV[3]) then return {-2} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
--- fenced_release
-- KEYS: 1 lock 2 counter   ARGV: 1 value 2 token+1, or 0 where the value alone is known 3 quarantine_ms 4 idle_ms 5 undo
local found, time = redis.call('MGET', KEYS[1], KEYS[2]), redis.call('TIME')
local value, counter, tombstone = found[1], found[2], tonumber(ARGV[2])
local reply
if value == ARGV[1] then
  reply = give_back(KEYS[1], ARGV[5])
else
  reply = refusal(KEYS[1], value)
end
local is_number = counter and string.find(counter, '^%d+$')
if tombstone == 0 and value == ARGV[1] and is_number then tombstone = tonumber(counter) + 1 end
local latest = time[1] * 1000000 + time[2] + ARGV[3] * 1000
-- The lock is given back by now. A server whose memory is used up may refuse what follows.
if tombstone == 0 then
  -- Nothing is known of a lock that is not there.
elseif not counter then
  local floor = latest - ARGV[4] * 1000
  if floor < tombstone and tombstone <= latest + 1 then floor = tombstone end
  redis.pcall('SET', KEYS[2], string.format('%.0f', floor), 'PX', ARGV[4], 'NX')
elseif is_number and tonumber(counter) < tombstone then
  -- A token that is too far ahead was not granted here, and must not be in the way of those that are not.
  if tombstone <= latest + 1 or tonumber(counter) == tombstone - 1 then
    redis.pcall('SET', KEYS[2], string.format('%.0f', tombstone), 'PX', ARGV[4])
  end
end
return reply
--- fenced_read
-- KEYS: 1 lock 2 counter 3 marker   ARGV: 1 value 2 ttl_ms 3 again 4 quarantine_ms 5 config
local found = redis.call('MGET', KEYS[2], KEYS[3])
local closed = gate(KEYS[3], found[2], ARGV[4], ARGV[5])
if closed then return closed end
local reply = read(KEYS, ARGV)
local counter = found[1] or ''
if reply.ok and #counter < 17 and string.find(counter, '^[1-9]%d*$') then redis.call('INCR', KEYS[2]) end
return reply
--- one
local function one(KEYS, ARGV)
--- reads
local function read(KEYS, ARGV)
--- end
end
--- extend_each
return each(KEYS, ARGV)
--- old-release   behind refusal, ring, give_back, release
--- old-rest   behind refusal, rest, release
--- old-extend   behind refusal, extend
--- old-retake   behind retake
--- old-look   behind announce, look
--- old-take-all   behind set_all, all_free, refusal, missing, acquire_all
--- old-release-all   behind refusal, ring, give_back, one, release, end, each, release_all
--- old-extend-all   behind refusal, one, extend, end, each, extend_each
--- old-read   behind refusal, readers, read
--- old-unread   behind refusal, ring, readers, unread
--- old-reread   behind refusal, readers, reread
--- old-fenced-take   behind server, refusal, fenced_gate, fenced_floor, fenced_acquire
--- old-fenced-extend   behind server, refusal, fenced_extend
--- old-fenced-release   behind refusal, ring, give_back, fenced_release
--- old-fenced-rest   behind refusal, rest, fenced_release
--- old-fenced-read   behind server, refusal, readers, fenced_gate, reads, read, end, fenced_read
--- published-release   in the documentation of Redis, for keys that were set with NX and PX
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
else
  return 0
end
--- published-extend   as implementations of it write the extension
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  return 0
end
