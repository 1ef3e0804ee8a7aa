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
  return redis.pcall('SISMEMBER', name .. ':redlatch:waiting', '1') == 1 and wake_one(name) or 1
end
local function wake(lock)
  local name, slot = name_of(lock)
  local waiting, intents = name .. ':redlatch:waiting', name .. ':redlatch:intent'
  local beside = redis.pcall('EXISTS', waiting, intents)
  if beside ~= 1 and beside ~= 2 then return 1 end
  if not slot then
    if has('u') and intent(name) then return wake_alone(name) end
    redis.pcall('DEL', intents)
    local ones = {'1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1'}
    if redis.pcall('SREM', waiting, 'r') == 1 and ring(name .. ':redlatch:bell:read', 16, '30', unpack(ones)) == 2 then return 2 end
  end
  return redis.pcall('EXISTS', waiting) == 1 and wake_one(name, slot) or 1
end
