-- Looks at a lock, and changes nothing.
-- KEYS: 1 lock
-- Returns a table of the key's PTTL, the length of its value, and the first 512 bytes of it: other programs may have put
-- anything there. Without a value, a table with one number that says why, as in release.lua: -2 no key, or -3 for a key
-- of another type.
local value = redis.pcall('GET', KEYS[1])
if not value then return {-2} end
if type(value) == 'table' then
  if string.find(value.err, 'WRONGTYPE', 1, true) then return {-3} end
  return value
end
return {redis.call('PTTL', KEYS[1]), #value, string.sub(value, 1, 512)}
