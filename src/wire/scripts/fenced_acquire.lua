-- KEYS: 1 lock 2 counter 3 marker   ARGV: 1 value 2 ttl_ms 3 token 4 quarantine_ms 5 idle_ms 6 config 7 again 8 reserve
local run, why_not = process()
if not run then return {'UNKNOWN', why_not} end
local call, time = redis.call, redis.call('TIME')
local now, span = time[1] * 1000000 + time[2], ARGV[4] * 1000
local found, ours = call('MGET', KEYS[1], KEYS[2], KEYS[3]), run .. '|' .. ARGV[6] .. '|'
local value, counter, marker = found[1], found[2], found[3]
local open, why = nil, 'new'
if marker then
  if string.find(marker, ours, 1, true) == 1 then open, why = string.match(marker, '^(%d+)|(%l+)$', #ours + 1) end
  if not open then
    local config, at = string.match(marker, '^[^|]+|([^|]+)|(%d+)|%l+$')
    if not config or #at > 16 then return {'MARKER'} end
    if config ~= ARGV[6] then return {'CONFIG', string.sub(config, 1, 200)} end
    why = 'reborn'
  elseif #open > 16 then return {'MARKER'} end
end
if not open then
  open = string.format('%.0f', now + span)
  if not call('SET', KEYS[3], ours .. open .. '|' .. why, marker and 'XX' or 'NX') then return {'MARKER'} end
end
open = tonumber(open)
if now < open then return {'CLOSED', open - now, why} end
if value then
  if value == ARGV[1] and ARGV[7] == '1' then return redis.status_reply('OK') end
  return {call('PTTL', KEYS[1]), #value > 40 and #value < 274 and value or nil}
end
local token, floor = tonumber(ARGV[3]), now - ARGV[5] * 1000 + span
if counter then
  if #counter > 16 or not string.find(counter, '^%d+$') then return {'COUNTER'} end
  floor = tonumber(counter)
  if floor > now + span + 1 then return {'FUTURE', floor - now} end
end
if token > now + span then return {'SKEW', now} end
if floor < open then floor = open end
if token - ARGV[8] <= floor then return {'STALE', floor} end
if not call('SET', KEYS[2], ARGV[3], 'PX', ARGV[5], counter and 'XX' or 'NX') then return {'COUNTER'} end
return call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') or {-3}
