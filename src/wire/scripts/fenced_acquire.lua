-- KEYS: 1 lock 2 counter 3 marker   ARGV: 1 value 2 ttl_ms 3 token 4 quarantine_ms 5 idle_ms 6 config 7 again 8 reserve
local lock, counter_key = KEYS[1], KEYS[2]
local found = redis.call('MGET', lock, counter_key, KEYS[3])
local value, counter = found[1], found[2]
local closed, now, open = gate(KEYS[3], found[3], ARGV[4], ARGV[6])
if closed then return closed end
if value then
  if value == ARGV[1] and ARGV[7] == '1' then return redis.status_reply('OK') end
  return refusal(lock, value)
end
local floor, why_not = floor_of(counter, now, ARGV)
why_not = why_not or stale(floor, now, open, ARGV)
if not why_not and not redis.call('SET', counter_key, ARGV[3], 'PX', ARGV[5], counter and 'XX' or 'NX') then why_not = {'COUNTER'} end
if not why_not then
  local set = redis.call('SET', lock, ARGV[1], 'PX', ARGV[2], 'NX')
  if set then return set end
  if counter then
    redis.call('SET', counter_key, counter, 'PX', ARGV[5])
  else
    redis.call('DEL', counter_key)
  end
end
local other = refusal(lock, false)
return other[1] == -2 and why_not or other
