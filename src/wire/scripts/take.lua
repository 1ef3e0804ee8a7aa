local function read(lock)
  local value, its = ARGV[1], -1
  local is_string, last, why_not = redis.call('TYPE', lock).ok == 'string', nil, nil
  if not is_string then last, why_not = last_end(lock) end
  if why_not then return why_not end
  local now = now_ms()
  if (has('a') or has('h')) and not is_string then its = tonumber(redis.call('ZSCORE', lock, value) or -1) end
  if its < now then
    its = -1
    local intended = not has('h') and intent(lock)
    if intended then return {intended, -1} end
  end
  if is_string then return refusal(lock, redis.pcall('GET', lock)) end
  local ends = now + ARGV[2]
  if ends <= now then return {err = "ERR invalid expire time in 'pexpireat' command"} end
  if last > 0 then redis.call('ZREMRANGEBYSCORE', lock, '-inf', '(' .. whole(now)) end
  return note(lock, ends, last, its) or redis.status_reply('OK')
end
local function missing()
  local free, ours = {}, {}
  local is_free, is_again = redis.pcall('EXISTS', unpack(KEYS)) == 0, has('a') or has('h')
  for i, lock in ipairs(KEYS) do
    local found = not is_free and redis.pcall('GET', lock)
    if is_free then
      free[i] = i
    elseif found ~= ARGV[1] or not is_again then
      local row = refusal(lock, found)
      if row.err then return nil, row end
      if row[1] ~= -2 then
        local rows = {}
        for place = 1, #KEYS do rows[place] = place == i and row or 0 end
        return nil, KEYS[2] and rows or row
      end
      free[#free + 1] = i
    else
      ours[#ours + 1] = lock
    end
  end
  return free, ours
end
local function take()
  local closed, now, open
  if tonumber(ARGV[4] or '') then
    closed, now, open = gate()
    if closed then return closed end
  end
  if has('r') then
    local reply, counter = read(KEYS[1]), KEYS[1] .. ':fence'
    local its = reply.ok and now and redis.call('MGET', counter)[1] or ''
    if #its < 17 and string.find(its, '^[1-9]%d*$') then redis.call('INCR', counter) end
    return reply
  end
  local free, ours = missing()
  if not free then return ours end
  local why_not = now and free[1] and raise(free, now, open)
  if why_not then return why_not end
  for place, i in ipairs(free) do
    local set = redis.pcall('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
    if set.err then
      for before = 1, place - 1 do redis.call('DEL', KEYS[free[before]]) end
      return set
    end
  end
  for _, lock in ipairs(ours) do
    if redis.call('PTTL', lock) < tonumber(ARGV[2]) then redis.call('PEXPIRE', lock, ARGV[2]) end
  end
  return redis.status_reply('OK')
end
