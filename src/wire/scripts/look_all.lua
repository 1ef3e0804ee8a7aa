-- KEYS: the locks   ARGV: those of a look
local at = 1
for i, lock in ipairs(KEYS) do
  if redis.call('PTTL', lock) ~= -2 then
    at = i
    break
  end
end
local found = look({KEYS[at]}, ARGV)
return {at, found[1], found[2]}
