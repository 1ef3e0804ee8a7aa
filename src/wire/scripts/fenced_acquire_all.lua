-- KEYS: a lock and its counter, for each, and the marker   ARGV: those of a fenced acquire, with 7 again
local locks, counters, marker = {}, {}, KEYS[#KEYS]
for i = 1, #KEYS - 1, 2 do
  locks[#locks + 1], counters[#counters + 1] = KEYS[i], KEYS[i + 1]
end
local closed, now, open = gate(marker, redis.call('GET', marker), ARGV[4], ARGV[6])
if closed then return closed end
local free, why_not = missing(locks, ARGV[1], ARGV[7])
if not free then return why_not end
if #free == 0 then return redis.status_reply('OK') end
local found, floor = redis.call('MGET', unpack(counters)), 0
for _, i in ipairs(free) do
  local its, bad = floor_of(found[i], now, ARGV)
  if bad then
    if bad[1] == 'COUNTER' then bad[2] = i end
    return bad
  end
  floor = math.max(floor, its)
end
why_not = stale(floor, now, open, ARGV)
if why_not then return why_not end
local asked = {}
for _, i in ipairs(free) do
  if not redis.call('SET', counters[i], ARGV[3], 'PX', ARGV[5], found[i] and 'XX' or 'NX') then return {'COUNTER', i} end
  asked[#asked + 1] = locks[i]
end
return set_all(asked, ARGV[1], ARGV[2])
