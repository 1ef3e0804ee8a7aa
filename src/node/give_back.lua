-- Deletes a lock and wakes one who waits for it: a hint, of which nothing is an error. Returns 2 if there was one, else 1.
local function give_back(lock)
  redis.call('DEL', lock)
  local waiting, bell = lock .. ':redlatch:waiting', lock .. ':redlatch:bell'
  if redis.pcall('EXISTS', waiting) ~= 1 then return 1 end
  if redis.pcall('EXISTS', bell) == 0 then
    if redis.pcall('RPUSH', bell, '1') ~= 1 then return 1 end
    if redis.pcall('PEXPIRE', bell, '500') ~= 1 then redis.pcall('DEL', bell) end
  end
  return 2
end
