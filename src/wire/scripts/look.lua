-- KEYS: 1 lock or semaphore   ARGV: 1 announced_ms 2 in_any_case 3 permits, of a semaphore
local left, waiting, free = nil, KEYS[1] .. ':redlatch:waiting', ARGV[3] and ''
if not free then left = redis.call('PTTL', KEYS[1]) end
for slot = 0, (ARGV[3] or 0) - 1 do
  local its = redis.call('PTTL', KEYS[1] .. ':redlatch:slot:' .. slot)
  free = free .. (its == -2 and '1' or '0')
  if not left or left == -1 or (its ~= -1 and its < left) then left = its end
end
if left == -2 and ARGV[2] == '1' and redis.pcall('EXISTS', KEYS[1] .. ':redlatch:bell') == 1 then return {-3, 0, free} end
if ARGV[1] == '0' or (left < 0 and ARGV[2] ~= '1') then return {left, 0, free} end
if type(redis.pcall('SADD', waiting, '1')) == 'table' then return {left, 0, free} end
local announced = redis.pcall('PTTL', waiting)
if type(announced) == 'number' and announced >= tonumber(ARGV[1]) then return {left, 1, free} end
if redis.pcall('PEXPIRE', waiting, ARGV[1]) == 1 then return {left, 1, free} end
redis.pcall('DEL', waiting)
return {left, 0, free}
