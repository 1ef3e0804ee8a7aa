local function release_all()
  local found, waiting = redis.pcall('MGET', unpack(KEYS)), {}
  for i, lock in ipairs(KEYS) do
    if found[i] ~= ARGV[1] then return end
    waiting[i] = lock .. ':redlatch:waiting'
  end
  if redis.pcall('EXISTS', unpack(waiting)) ~= 0 then return end
  redis.call('DEL', unpack(KEYS))
  for i in ipairs(KEYS) do waiting[i] = 1 end
  return waiting
end
local released = release_all()
if released then return released end
