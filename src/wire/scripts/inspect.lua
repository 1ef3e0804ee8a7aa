-- KEYS: 1 lock
local value = redis.pcall('GET', KEYS[1])
if not value then return {-2} end
if type(value) == 'table' then
  if string.find(value.err, 'WRONGTYPE', 1, true) then return {-3} end
  return value
end
return {redis.call('PTTL', KEYS[1]), #value, string.sub(value, 1, 512)}
