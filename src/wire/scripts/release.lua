-- KEYS: 1 lock   ARGV: 1 token
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then return give_back(KEYS[1]) end
if type(value) == 'table' then
  if string.find(value.err, 'WRONGTYPE', 1, true) then return {-3} end
  return value
end
return {redis.call('PTTL', KEYS[1]), value and #value > 40 and #value < 274 and value or nil}
