-- KEYS: 1 marker   ARGV: 1 action 2 quarantine_ms 3 config
local process_id, why_not = process()
if not process_id then return {'UNKNOWN', why_not} end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local marker = redis.call('GET', KEYS[1])
local run, config, open, why = parts(marker or '')
if marker and not run then return {'MARKER'} end
if marker and config ~= ARGV[3] then return {'CONFIG', string.sub(config, 1, 200)} end
local is_ours = run == process_id
local fresh, opened = not marker or is_ours and why == 'new' and now < open, is_ours and why == 'opened'
local function set(open, why)
  redis.call('SET', KEYS[1], string.format('%s|%s|%.0f|%s', process_id, ARGV[3], open, why))
  return redis.status_reply('OK')
end
if ARGV[1] == 'close' and opened then return set(now + ARGV[2] * 1000, 'new') end
if not fresh then return {'SERVING'} end
if ARGV[1] == 'open' then return set(now, 'opened') end
return redis.status_reply('OK')
