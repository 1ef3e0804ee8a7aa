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
