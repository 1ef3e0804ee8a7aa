-- KEYS: 1 lock   ARGV: 1 value
local lock, value = KEYS[1], ARGV[1]
local last, why_not = last_end(lock)
if not last then return why_not.err and why_not or {-2} end
local its = last > 0 and redis.call('ZSCORE', lock, value)
local left = its and its - now_ms() or -1
return left < 0 and {-2} or {left, #value, value}
