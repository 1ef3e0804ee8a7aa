-- KEYS: 1 lock
local lock = KEYS[1]
local value = redis.pcall('GET', lock)
if not value then return {-2} end
if type(value) == 'string' then return {redis.call('PTTL', lock), #value, string.sub(value, 1, 512)} end
local reply = refusal(lock, value)
if not reply[2] or reply[1] < 0 then return reply end
local now = now_ms()
local first = redis.call('ZRANGEBYSCORE', lock, whole(now), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
return first[2] and {reply[1], reply[2], first[2] - now} or {-2}
