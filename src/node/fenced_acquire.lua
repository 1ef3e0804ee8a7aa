-- KEYS: 1 lock 2 counter 3 marker   ARGV: 1 value 2 ttl_ms 3 token 4 quarantine_ms 5 idle_ms 6 config 7 again 8 run_id
local time = redis.call('TIME')
local now, span = time[1] * 1000000 + time[2], ARGV[4] * 1000
local marker = redis.call('GET', KEYS[3])
local run, config, open, why
if marker then
  run, config, open, why = string.match(marker, '^([^|]+)|([^|]+)|(%d+)|(%l+)$')
  if not run or #open > 16 then return {'MARKER'} end
  if config ~= ARGV[6] then return {'CONFIG', string.sub(config, 1, 200)} end
end
if run ~= ARGV[8] then
  why, open = marker and 'reborn' or 'new', now + span
  redis.call('SET', KEYS[3], string.format('%s|%s|%.0f|%s', ARGV[8], ARGV[6], open, why))
end
open = tonumber(open)
if now < open then return {'CLOSED', open - now, why} end
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] and ARGV[7] == '1' then return redis.status_reply('OK') end
if type(value) == 'table' then
  if string.find(value.err, 'WRONGTYPE', 1, true) then return {-3} end
  return value
end
if value then return {redis.call('PTTL', KEYS[1])} end
local token, counter, floor = tonumber(ARGV[3]), redis.pcall('GET', KEYS[2]), now - ARGV[5] * 1000 + span
if counter then
  if type(counter) == 'table' then
    if string.find(counter.err, 'WRONGTYPE', 1, true) then return {'COUNTER'} end
    return counter
  end
  if #counter > 16 or not string.match(counter, '^%d+$') then return {'COUNTER'} end
  floor = tonumber(counter)
  if floor > now + span + 1 then return {'FUTURE', floor - now} end
end
if token > now + span then return {'SKEW', now} end
if floor < open then floor = open end
if token <= floor then return {'STALE', floor} end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[5])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.status_reply('OK')
