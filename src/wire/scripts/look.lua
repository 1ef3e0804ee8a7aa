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
if ARGV[7] then pcall(gate) end
local span, when_free, permits, at = ARGV[1], ARGV[2], tonumber(ARGV[4] or ''), 1
for i, lock in ipairs(KEYS) do
  if KEYS[2] and redis.call('PTTL', lock) ~= -2 then
    at = i
    break
  end
end
local lock, left, free = KEYS[at], nil, ''
if permits then
  for slot = 0, permits - 1 do
    local its = redis.call('PTTL', lock .. ':redlatch:slot:' .. slot)
    free = free .. (its == -2 and '1' or '0')
    if not left or left == -1 or (its ~= -1 and its < left) then left = its end
  end
else
  left = redis.call('PTTL', lock)
end
if has('r') then
  if left >= 0 and redis.call('TYPE', lock).ok == 'zset' and last_end(lock) then left = -2 end
  if left == -2 then left = intent(lock) or left end
  if span == '0' or (left < 0 and when_free ~= '1') then return {at, left, 0, free} end
  return {at, left, announce(lock, 'r', span), free}
end
if left == -2 and not permits then
  local rung = redis.pcall('PTTL', lock .. ':redlatch:bell:read')
  if type(rung) == 'number' and rung >= 0 then left = rung end
end
if left == -2 and when_free == '1' and redis.pcall('EXISTS', lock .. ':redlatch:bell') == 1 then return {at, -3, 0, free} end
if span == '0' or (left < 0 and when_free == '0') then return {at, left, 0, free} end
if not permits and (when_free == '2' or left >= 0 and redis.pcall('TYPE', lock).ok == 'zset') then
  if when_free == '1' then
    left = math.min(left, 20)
  else
    local intends = math.min(span, 60000)
    if (intent(lock) or -1) < intends then redis.pcall('SET', lock .. ':redlatch:intent', '1', 'PX', intends) end
    if when_free == '2' then return {at, left, 0, free} end
  end
end
return {at, left, announce(lock, '1', span), free}
