-- KEYS: 1 lock or semaphore   ARGV: 1 announced_ms 2 when_free 3 permits, of a semaphore
local left, free = nil, ARGV[3] and ''
if not free then left = redis.call('PTTL', KEYS[1]) end
for slot = 0, (ARGV[3] or 0) - 1 do
  local its = redis.call('PTTL', KEYS[1] .. ':redlatch:slot:' .. slot)
  free = free .. (its == -2 and '1' or '0')
  if not left or left == -1 or (its ~= -1 and its < left) then left = its end
end
if left == -2 and not free then
  local rung = redis.pcall('PTTL', KEYS[1] .. ':redlatch:bell:read')
  if type(rung) == 'number' and rung >= 0 then left = rung end
end
if left == -2 and ARGV[2] == '1' and redis.pcall('EXISTS', KEYS[1] .. ':redlatch:bell') == 1 then return {-3, 0, free} end
if ARGV[1] == '0' or (left < 0 and ARGV[2] == '0') then return {left, 0, free} end
if not free and (ARGV[2] == '2' or left >= 0 and redis.pcall('TYPE', KEYS[1]).ok == 'zset') then
  if ARGV[2] == '1' then
    left = math.min(left, 20)
  else
    local intent, span = KEYS[1] .. ':redlatch:intent', math.min(ARGV[1], 60000)
    local intended = redis.pcall('PTTL', intent)
    local is_good = type(intended) == 'table' or intended >= span and intended <= 60000
    if not is_good then redis.pcall('SET', intent, '1', 'PX', span) end
    if ARGV[2] == '2' then return {left, 0} end
  end
end
return {left, announce(KEYS[1], '1', ARGV[1]), free}
