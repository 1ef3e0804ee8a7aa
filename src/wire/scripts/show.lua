local named = ARGV[1]
local function is_named(value) return value == named or #named == 40 and string.sub(value, 1, 41) == named .. ' ' end
local function reader(lock)
  local last, why_not = last_end(lock)
  if not last then return why_not.err and why_not or {-2} end
  local its = last > 0 and redis.call('ZSCORE', lock, named)
  local left = its and its - now_ms() or -1
  return left < 0 and {-2} or {left, #named, named}
end
local function lookup(lock, now)
  local from = 0
  while true do
    local values = redis.call('ZRANGEBYSCORE', lock, whole(now), '+inf', 'LIMIT', from, '1000')
    for _, value in ipairs(values) do
      if is_named(value) then return {'READER', value} end
    end
    if #values < 1000 then return {-2} end
    from = from + 1000
  end
end
return each(function(lock)
  if has('r') then return reader(lock) end
  local value = redis.pcall('GET', lock)
  if not value then return {-2} end
  if type(value) == 'string' then
    local left = redis.call('PTTL', lock)
    if left >= 0 and ARGV[4] then
      local counter = redis.pcall('GET', lock .. ':fence')
      counter = type(counter) == 'string' and string.find(counter, '^%d+$') and tonumber(counter)
      if not counter or counter < tonumber(ARGV[4]) then return {-2} end
    end
    return {left, #value, string.sub(value, 1, 512), is_waited_for(lock) and 1 or nil}
  end
  local row = refusal(lock, value)
  if not row[2] or row[1] < 0 then return row end
  local now = now_ms()
  if has('n') then return lookup(lock, now) end
  local first = redis.call('ZRANGEBYSCORE', lock, whole(now), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  return first[2] and {row[1], row[2], first[2] - now, is_waited_for(lock) and 1 or nil} or {-2}
end)
