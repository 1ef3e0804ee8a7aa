-- KEYS: 1 lock 2 counter   ARGV: 1 value 2 token+1 3 quarantine_ms 4 idle_ms
local found = redis.call('MGET', KEYS[1], KEYS[2])
local value, counter = found[1], found[2]
if not counter then
  local time = redis.call('TIME')
  local floor = time[1] * 1000000 + time[2] - ARGV[4] * 1000 + ARGV[3] * 1000
  if floor < tonumber(ARGV[2]) then floor = tonumber(ARGV[2]) end
  redis.call('SET', KEYS[2], string.format('%.0f', floor), 'PX', ARGV[4], 'NX')
elseif string.find(counter, '^%d+$') and tonumber(counter) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[4])
end
if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end
local left = redis.call('PTTL', KEYS[1])
if value or left == -2 then return {left} end
return {-3}
