-- KEYS: 1 lock   ARGV: 1 announced_ms 2 in_any_case
local left, waiting = redis.call('PTTL', KEYS[1]), KEYS[1] .. ':redlatch:waiting'
if left == -2 and ARGV[2] == '1' and redis.pcall('EXISTS', KEYS[1] .. ':redlatch:bell') == 1 then return {-3, 0} end
if ARGV[1] == '0' or (left < 0 and ARGV[2] ~= '1') then return {left, 0} end
if type(redis.pcall('SADD', waiting, '1')) == 'table' then return {left, 0} end
local announced = redis.pcall('PTTL', waiting)
if type(announced) == 'number' and announced >= tonumber(ARGV[1]) then return {left, 1} end
if redis.pcall('PEXPIRE', waiting, ARGV[1]) == 1 then return {left, 1} end
redis.pcall('DEL', waiting)
return {left, 0}
