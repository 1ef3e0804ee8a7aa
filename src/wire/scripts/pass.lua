-- KEYS: those of the acquire   ARGV: 1 the number of arguments of the release, then these, and then those of the acquire
local count, old, new = tonumber(ARGV[1]), {}, {}
for i = 2, #ARGV do
  if i <= count + 1 then old[i - 1] = ARGV[i] else new[i - 1 - count] = ARGV[i] end
end
local released = release(KEYS, old)
if released == 2 then return {2} end
local _, asked = pcall(acquire, KEYS, new)
if type(asked) == 'string' then asked = {err = asked} end
return {released, asked}
