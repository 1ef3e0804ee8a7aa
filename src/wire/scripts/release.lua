-- KEYS: 1 lock   ARGV: 1 token 2 undo
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then return give_back(KEYS[1], ARGV[2]) end
return refusal(KEYS[1], value)
