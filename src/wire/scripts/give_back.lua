local function wake(lock, undo)
  local slot = string.find(lock, ':redlatch:slot:', 1, true)
  local name = slot and string.sub(lock, 1, slot - 1) or lock
  local waiting, intent = name .. ':redlatch:waiting', name .. ':redlatch:intent'
  local beside = redis.pcall('EXISTS', waiting, intent)
  if beside ~= 1 and beside ~= 2 then return 1 end
  if not slot then
    local intended = undo and redis.pcall('PTTL', intent)
    if type(intended) == 'number' and intended >= 0 and intended <= 60000 then return wake_alone(name) end
    redis.pcall('DEL', intent)
    local ones = {'1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1'}
    if redis.pcall('SREM', waiting, 'r') == 1 and ring(name .. ':redlatch:bell:read', 16, '30', unpack(ones)) == 2 then return 2 end
  end
  if redis.pcall('EXISTS', waiting) ~= 1 then return 1 end
  return wake_one(name, slot)
end
local function give_back(lock, undo)
  redis.call('DEL', lock)
  return wake(lock, undo)
end
