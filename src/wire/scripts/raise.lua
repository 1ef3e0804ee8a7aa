local function floor_of(counter, now)
  local span = ARGV[5] * 1000
  if not counter then return now - ARGV[6] * 1000 + span end
  if #counter > 16 or not string.find(counter, '^%d+$') then return nil, {'COUNTER'} end
  local floor = tonumber(counter)
  if floor > now + span + 1 then return nil, {'FUTURE', floor - now} end
  return floor
end
local function raise(free, now, open)
  local names, floor, token = {}, open, tonumber(ARGV[4])
  for place, i in ipairs(free) do names[place] = KEYS[i] .. ':fence' end
  local counters = redis.call('MGET', unpack(names))
  for place, i in ipairs(free) do
    local its, bad = floor_of(counters[place], now)
    if bad then
      if bad[1] == 'COUNTER' then bad[2] = i end
      return bad
    end
    floor = math.max(floor, its)
  end
  if token > now + ARGV[5] * 1000 then return {'SKEW', now} end
  if token <= floor then return {'STALE', floor} end
  for place, i in ipairs(free) do
    local set = redis.call('SET', names[place], ARGV[4], 'PX', ARGV[6], counters[place] and 'XX' or 'NX')
    if not set then return {'COUNTER', i} end
  end
end
