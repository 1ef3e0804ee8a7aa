-- KEYS: 1 lock 2 counter 3 marker   ARGV: 1 - 4 those of the release, then those of the acquire
local old, new = {}, {}
for i = 1, #ARGV do
  if i <= 4 then old[i] = ARGV[i] else new[i - 4] = ARGV[i] end
end
local released = release(KEYS, old)
if released == 2 then return 2 end
local _, asked = pcall(acquire, KEYS, new)
if type(asked) == 'string' then asked = {err = asked} end
return {released, asked}
