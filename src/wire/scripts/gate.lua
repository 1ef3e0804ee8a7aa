local function gate()
  local key, quarantine_ms, config = ARGV[7], ARGV[5], ARGV[8]
  local run, why_not = process()
  if not run then return {'UNKNOWN', why_not} end
  local time, marker = redis.call('TIME'), redis.call('MGET', key)[1]
  local now = time[1] * 1000000 + time[2]
  local its_run, its_config, open, why = parts(marker or '')
  if marker and not its_run then return {'MARKER'} end
  if marker and its_config ~= config then return {'CONFIG', string.sub(its_config, 1, 200)} end
  if its_run ~= run then
    open, why = now + quarantine_ms * 1000, marker and 'reborn' or 'new'
    local text = string.format('%s|%s|%.0f|%s', run, config, open, why)
    if not redis.call('SET', key, text, marker and 'XX' or 'NX') then return {'MARKER'} end
  end
  if now < open then return {'CLOSED', open - now, why} end
  return nil, now, open
end
