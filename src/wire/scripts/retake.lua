-- KEYS: 1 lock   ARGV: 1 token 2 ttl_ms
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return redis.status_reply('OK')
end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
