local function ring(bell, most, span, ...)
  local length = redis.pcall('RPUSH', bell, ...)
  if type(length) ~= 'number' then return 1 end
  if length > most or redis.pcall('PEXPIRE', bell, span) ~= 1 then redis.pcall('DEL', bell) end
  return 2
end
local function wake_one(name, slot)
  local bell = name .. ':redlatch:bell'
  if not slot and redis.pcall('EXISTS', bell) ~= 0 then return 2 end
  return ring(bell, 8, '500', '1')
end
local function wake_alone(name)
  if redis.pcall('SISMEMBER', name .. ':redlatch:waiting', '1') ~= 1 then return 1 end
  return wake_one(name)
end
