-- Looks at a lock that is waited for, and announces that.
-- KEYS: 1 lock   ARGV: 1 for how long it is waited for in ms, or 0 to announce nothing 2 1 to announce it also if there is no lock
-- Returns the key's PTTL, and 1 if it was announced, or else 0. Where 2 is 1, there is no lock, and nobody has come for the
-- word of its release: -3 and 0.
local left, waiting = redis.call('PTTL', KEYS[1]), KEYS[1] .. ':redlatch:waiting'
if left == -2 and ARGV[2] == '1' and redis.pcall('EXISTS', KEYS[1] .. ':redlatch:bell') == 1 then return {-3, 0} end
if ARGV[1] == '0' or (left < 0 and ARGV[2] ~= '1') then return {left, 0} end
if type(redis.pcall('SADD', waiting, '1')) == 'table' then return {left, 0} end
local announced = redis.pcall('PTTL', waiting)
if type(announced) == 'number' and announced >= tonumber(ARGV[1]) then return {left, 1} end
if redis.pcall('PEXPIRE', waiting, ARGV[1]) == 1 then return {left, 1} end
redis.pcall('DEL', waiting)
return {left, 0}
