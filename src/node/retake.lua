-- Repeats an acquire whose connection broke before the reply came: the first SET may or may not have been executed.
-- KEYS: 1 lock   ARGV: 1 token 2 ttl_ms
-- Replies as SET NX does, but a key with our own token counts as set.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then return redis.status_reply('OK') end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
