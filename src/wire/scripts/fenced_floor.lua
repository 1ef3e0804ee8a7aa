local function floor_of(counter, now, ARGV)
  local span = ARGV[4] * 1000
  if not counter then return now - ARGV[5] * 1000 + span end
  if #counter > 16 or not string.find(counter, '^%d+$') then return nil, {'COUNTER'} end
  local floor = tonumber(counter)
  if floor > now + span + 1 then return nil, {'FUTURE', floor - now} end
  return floor
end
local function stale(floor, now, open, ARGV)
  local token = tonumber(ARGV[3])
  if token > now + ARGV[4] * 1000 then return {'SKEW', now} end
  if floor < open then floor = open end
  if token - ARGV[8] <= floor then return {'STALE', floor} end
end
