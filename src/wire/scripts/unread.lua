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
