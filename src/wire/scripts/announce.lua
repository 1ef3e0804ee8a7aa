local function announce(name, member, span)
  local waiting = name .. ':redlatch:waiting'
  local added = redis.pcall('SADD', waiting, member)
  if type(added) == 'table' then return 0 end
  if added == 1 and member == 'r' then redis.pcall('DEL', name .. ':redlatch:bell:read') end
  local announced = redis.pcall('PTTL', waiting)
  if type(announced) == 'number' and announced >= tonumber(span) then return 1 end
  if redis.pcall('PEXPIRE', waiting, span) == 1 then return 1 end
  redis.pcall('DEL', waiting)
  return 0
end
