-- KEYS: 1 lock   ARGV: 1 token 2 next_token 3 ttl_ms
local lock, next, ttl = KEYS[1], ARGV[2], ARGV[3]
local value = redis.pcall('GET', lock)
if value == ARGV[1] then
  if redis.pcall('EXISTS', lock .. ':redlatch:waiting') == 1 and give_back(lock) == 2 then return 2 end
  local set = redis.pcall('SET', lock, next, 'PX', ttl)
  if set.err then redis.call('DEL', lock) end
  return {1, set}
end
if not value or value == next then return {{-2}, redis.call('SET', lock, next, 'PX', ttl)} end
