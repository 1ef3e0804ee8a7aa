-- KEYS: 1 lock 2 counter 3 marker   ARGV: 1 value 2 ttl_ms 3 again 4 quarantine_ms 5 config
local found = redis.call('MGET', KEYS[2], KEYS[3])
local closed = gate(KEYS[3], found[2], ARGV[4], ARGV[5])
if closed then return closed end
local reply = read(KEYS, ARGV)
local counter = found[1] or ''
if reply.ok and #counter < 17 and string.find(counter, '^[1-9]%d*$') then redis.call('INCR', KEYS[2]) end
return reply
