local function name_of(lock)
  local slot = string.find(lock, ':redlatch:slot:', 1, true)
  return slot and string.sub(lock, 1, slot - 1) or lock, slot
end
local function is_waited_for(lock) return redis.pcall('EXISTS', name_of(lock) .. ':redlatch:waiting') == 1 end
