-- KEYS: 1 lock   ARGV: 1 announced_ms 2 when_free
local lock = KEYS[1]
local left = redis.call('PTTL', lock)
if left >= 0 and redis.call('TYPE', lock).ok == 'zset' and last_end(lock) then left = -2 end
if left == -2 then
  local intended = redis.pcall('PTTL', lock .. ':redlatch:intent')
  if type(intended) == 'number' and intended >= 0 and intended <= 60000 then left = intended end
end
if ARGV[1] == '0' or (left < 0 and ARGV[2] ~= '1') then return {left, 0} end
return {left, announce(lock, 'r', ARGV[1])}
