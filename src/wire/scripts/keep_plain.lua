local function kept(lock) return is_waited_for(lock) and 2 or 1 end
if not ARGV[3] and not KEYS[2] and redis.pcall('GET', KEYS[1]) == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return kept(KEYS[1])
end
