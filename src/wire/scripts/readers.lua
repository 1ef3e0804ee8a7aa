local function find(lock, value)
  local last, why_not = last_end(lock)
  if not last then return nil, why_not.err and why_not or refusal(lock, redis.pcall('GET', lock)) end
  local its = last > 0 and redis.call('ZSCORE', lock, value)
  return last, now_ms(), its and tonumber(its) or -1
end
local function note(lock, ends, last, its)
  local value = ARGV[1]
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
