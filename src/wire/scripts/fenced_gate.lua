local function gate(key, marker, quarantine_ms, config)
  local run, why_not = process()
  if not run then return {'UNKNOWN', why_not} end
  local time = redis.call('TIME')
  local now, ours = time[1] * 1000000 + time[2], run .. '|' .. config .. '|'
  local open, why = nil, 'new'
  if marker then
    if string.find(marker, ours, 1, true) == 1 then open, why = string.match(marker, '^(%d+)|(%l+)$', #ours + 1) end
    if not open then
      local its, at = string.match(marker, '^[^|]+|([^|]+)|(%d+)|%l+$')
      if not its or #at > 16 then return {'MARKER'} end
      if its ~= config then return {'CONFIG', string.sub(its, 1, 200)} end
      why = 'reborn'
    elseif #open > 16 then return {'MARKER'} end
  end
  if not open then
    open = string.format('%.0f', now + quarantine_ms * 1000)
    if not redis.call('SET', key, ours .. open .. '|' .. why, marker and 'XX' or 'NX') then return {'MARKER'} end
  end
  open = tonumber(open)
  if now < open then return {'CLOSED', open - now, why} end
  return nil, now, open
end
