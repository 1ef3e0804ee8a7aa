local function give_back(lock)
  redis.call('DEL', lock)
  if redis.pcall('EXISTS', lock .. ':redlatch:waiting') ~= 1 then return 1 end
  local bell = lock .. ':redlatch:bell'
  if redis.pcall('EXISTS', bell) == 0 then
    if redis.pcall('RPUSH', bell, '1') ~= 1 then return 1 end
    if redis.pcall('PEXPIRE', bell, '500') ~= 1 then redis.pcall('DEL', bell) end
  end
  return 2
end
