local function reread(lock)
  local last, now, its = find(lock, ARGV[1])
  if not last then return now end
  if its < now then return {-2} end
  redis.call('ZREMRANGEBYSCORE', lock, '-inf', '(' .. whole(now))
  return note(lock, now + ARGV[2], last, its) or kept(lock)
end
local closed, open = true, nil
if ARGV[4] then
  local is_told, why_not, _, at = pcall(gate)
  closed, open = not is_told or why_not, at
end
local function may_set(lock) return not closed and open < tonumber(ARGV[4]) and redis.pcall('GET', lock .. ':fence') == ARGV[4] end
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
