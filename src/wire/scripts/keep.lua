local function reread(lock)
  local last, now, its = find(lock, ARGV[1])
  if not last then return now end
  if its < now then return {-2} end
  redis.call('ZREMRANGEBYSCORE', lock, '-inf', '(' .. whole(now))
  return note(lock, now + ARGV[2], last, its) or kept(lock)
end
local function may_set(lock)
  if redis.pcall('GET', lock .. ':fence') ~= ARGV[4] then return false end
  local run, _, open = parts(redis.call('GET', ARGV[7]) or '')
  return run and run == process() and open < tonumber(ARGV[4])
end
return each(function(lock)
  if has('r') then return reread(lock) end
  local value = redis.pcall('GET', lock)
  if value == ARGV[1] then
    if redis.call('PTTL', lock) < tonumber(ARGV[2]) then redis.call('PEXPIRE', lock, ARGV[2]) end
  elseif value or not ARGV[4] then
    return refusal(lock, value)
  elseif may_set(lock) then
    redis.call('SET', lock, ARGV[1], 'PX', ARGV[2])
  else
    return {-2}
  end
  if ARGV[4] then redis.call('PEXPIRE', lock .. ':fence', ARGV[6]) end
  return kept(lock)
end)
