local function give_back(lock)
  redis.call('DEL', lock)
  local slot = string.find(lock, ':redlatch:slot:', 1, true)
  local name = slot and string.sub(lock, 1, slot - 1) or lock
  if redis.pcall('EXISTS', name .. ':redlatch:waiting') ~= 1 then return 1 end
  local bell = name .. ':redlatch:bell'
  if slot or redis.pcall('EXISTS', bell) == 0 then
    local length = redis.pcall('RPUSH', bell, '1')
    if type(length) ~= 'number' then return 1 end
    if length > 8 or redis.pcall('PEXPIRE', bell, '500') ~= 1 then redis.pcall('DEL', bell) end
  end
  return 2
end
