-- Gives a lock back: deletes the key only if it still holds our token.
-- KEYS: 1 lock   ARGV: 1 token
-- Returns 1 when the key was ours and is deleted, or 2 if that has woken somebody. Otherwise a table with one number that
-- says why not: the key's PTTL (-2 no key, -1 a key that never expires), or -3 for a key of another type.
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then return give_back(KEYS[1]) end
if type(value) == 'table' then
  if string.find(value.err, 'WRONGTYPE', 1, true) then return {-3} end
  return value
end
return {redis.call('PTTL', KEYS[1])}
