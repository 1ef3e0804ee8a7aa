-- KEYS: 1 lock 2 counter   ARGV: 1 value 2 token+1 3 quarantine_ms 4 idle_ms
local counter = redis.pcall('GET', KEYS[2])
if not counter then
  local time = redis.call('TIME')
  local floor = time[1] * 1000000 + time[2] - ARGV[4] * 1000 + ARGV[3] * 1000
  if floor < tonumber(ARGV[2]) then floor = tonumber(ARGV[2]) end
  redis.call('SET', KEYS[2], string.format('%.0f', floor), 'PX', ARGV[4])
elseif type(counter) == 'string' and string.match(counter, '^%d+$') and tonumber(counter) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[4])
end
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end
if type(value) == 'table' then
  if string.find(value.err, 'WRONGTYPE', 1, true) then return {-3} end
  return value
end
return {redis.call('PTTL', KEYS[1])}
