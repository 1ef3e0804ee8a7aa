local function gate()
  local key, quarantine_ms, config = ARGV[7], ARGV[5], ARGV[8]
  local run, why_not = process()
  if not run then return {'UNKNOWN', why_not} end
  local time, marker = redis.call('TIME'), redis.call('MGET', key)[1]
  local now = time[1] * 1000000 + time[2]
  local its_run, its_config, open, why = parts(marker or '')
  if marker and not its_run then return {'MARKER'} end
  if marker and its_config ~= config then return {'CONFIG', string.sub(its_config, 1, 200)} end
  if its_run ~= run then
    open, why = now + quarantine_ms * 1000, marker and 'reborn' or 'new'
    local text = string.format('%s|%s|%.0f|%s', run, config, open, why)
    if not redis.call('SET', key, text, marker and 'XX' or 'NX') then return {'MARKER'} end
  end
  if now < open then return {'CLOSED', open - now, why} end
  return nil, now, open
end
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
