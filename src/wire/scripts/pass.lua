local lock, held = KEYS[1], ARGV[9]
if ARGV[10] then
  local row = drop(lock, held, nil, ARGV[10])
  if row == 2 then return {2, 0} end
  local _, taken = pcall(take)
  return {row, type(taken) == 'string' and {err = taken} or taken}
end
local found = redis.pcall('GET', lock)
if found == held then
  if redis.pcall('EXISTS', lock .. ':redlatch:waiting') == 1 and give_back(lock) == 2 then return {2, 0} end
  local set = redis.pcall('SET', lock, ARGV[1], 'PX', ARGV[2])
  if set.err then redis.call('DEL', lock) end
  return {1, set}
end
if not found or found == ARGV[1] then return {{-2}, redis.call('SET', lock, ARGV[1], 'PX', ARGV[2])} end
local row = refusal(lock, found)
return {row, row}
