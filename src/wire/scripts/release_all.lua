-- KEYS: the locks   ARGV: 1 value 2 undo
local found, beside, replies = redis.pcall('MGET', unpack(KEYS)), {}, {}
for i, lock in ipairs(KEYS) do
  if found[i] ~= ARGV[1] then return each(KEYS, ARGV) end
  beside[i * 2 - 1], beside[i * 2], replies[i] = lock .. ':redlatch:waiting', lock .. ':redlatch:intent', 1
end
redis.call('DEL', unpack(KEYS))
if redis.pcall('EXISTS', unpack(beside)) == 0 then return replies end
for i, lock in ipairs(KEYS) do replies[i] = wake(lock, ARGV[2]) end
return replies
