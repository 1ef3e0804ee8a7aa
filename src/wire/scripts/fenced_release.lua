-- KEYS: 1 lock 2 counter   ARGV: 1 value 2 token+1, or 0 where the value alone is known 3 quarantine_ms 4 idle_ms 5 undo
local found, time = redis.call('MGET', KEYS[1], KEYS[2]), redis.call('TIME')
local value, counter, tombstone = found[1], found[2], tonumber(ARGV[2])
local reply
if value == ARGV[1] then
  reply = give_back(KEYS[1], ARGV[5])
else
  reply = refusal(KEYS[1], value)
end
local is_number = counter and string.find(counter, '^%d+$')
if tombstone == 0 and value == ARGV[1] and is_number then tombstone = tonumber(counter) + 1 end
local latest = time[1] * 1000000 + time[2] + ARGV[3] * 1000
-- The lock is given back by now. A server whose memory is used up may refuse what follows.
if tombstone == 0 then
  -- Nothing is known of a lock that is not there.
elseif not counter then
  local floor = latest - ARGV[4] * 1000
  if floor < tombstone and tombstone <= latest + 1 then floor = tombstone end
  redis.pcall('SET', KEYS[2], string.format('%.0f', floor), 'PX', ARGV[4], 'NX')
elseif is_number and tonumber(counter) < tombstone then
  -- A token that is too far ahead was not granted here, and must not be in the way of those that are not.
  if tombstone <= latest + 1 or tonumber(counter) == tombstone - 1 then
    redis.pcall('SET', KEYS[2], string.format('%.0f', tombstone), 'PX', ARGV[4])
  end
end
return reply
