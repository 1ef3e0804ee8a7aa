local function find(lock, value)
  local last, why_not = last_end(lock)
  if not last then return nil, why_not.err and why_not or refusal(lock, redis.pcall('GET', lock)) end
  local its = last > 0 and redis.call('ZSCORE', lock, value)
  return last, now_ms(), its and tonumber(its) or -1
end
local function keep(lock, value, ends, last, its)
  if ends >= 1e15 then return {err = "ERR invalid expire time in 'pexpireat' command"} end
  if ends > its then redis.call('ZADD', lock, whole(ends), value) end
  local kept = redis.pcall('PEXPIREAT', lock, whole(math.max(ends, its, last)))
  if kept == 1 then return end
  if redis.call('PTTL', lock) == -1 then
    redis.call('DEL', lock)
  elseif its < 0 then
    redis.call('ZREM', lock, value)
  end
  return kept
end
