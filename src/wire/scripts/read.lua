-- KEYS: 1 lock   ARGV: 1 value 2 ttl_ms 3 again
local lock, value = KEYS[1], ARGV[1]
local is_string, last, now, its = redis.call('TYPE', lock).ok == 'string', nil, nil, -1
if not is_string then last, now, its = find(lock, value) end
if not is_string and not last then return now end
if is_string or ARGV[3] ~= '1' or its < now then
  local intended = redis.pcall('PTTL', lock .. ':redlatch:intent')
  if type(intended) == 'number' and intended >= 0 then return {intended, -1} end
end
if is_string then return refusal(lock, redis.pcall('GET', lock)) end
local ends = now + ARGV[2]
if ends <= now then return {err = "ERR invalid expire time in 'pexpireat' command"} end
if last > 0 then redis.call('ZREMRANGEBYSCORE', lock, '-inf', '(' .. whole(now)) end
if its < now then its = -1 end
return keep(lock, value, ends, last, its) or redis.status_reply('OK')
