local function unread(lock)
  local value = ARGV[1]
  local last, now, its = find(lock, value)
  if not last then return now end
  if its < now then return {-2} end
  redis.call('ZREM', lock, value)
  if its < last then return 1 end
  local next = redis.call('ZRANGE', lock, '-1', '-1', 'WITHSCORES')[2]
  if next and tonumber(next) >= now then
    if tonumber(next) < last then redis.pcall('PEXPIREAT', lock, whole(math.max(next, now + 1))) end
    return 1
  end
  if next then redis.call('DEL', lock) end
  return wake_alone(lock)
end
local function give_back(lock, value, rest_ms)
  if not rest_ms or rest_ms == '0' then
    redis.call('DEL', lock)
    return wake(lock)
  end
  local function set() return redis.pcall('SET', lock, 'rest:' .. value, 'PX', rest_ms) end
  if set().err then
    redis.call('PEXPIRE', lock, rest_ms)
    set()
  end
  return 1
end
local function bury(lock, is_ours, counter, now, token)
  local its = counter and string.find(counter, '^%d+$') and tonumber(counter)
  local last, latest, idle_ms = tonumber(token), now + ARGV[5] * 1000, ARGV[6]
  if last == 0 then last = is_ours and its end
  if not last then return end
  local tombstone = last + 1
  if not counter then
    local floor = latest - idle_ms * 1000
    if floor < tombstone and tombstone <= latest + 1 then floor = tombstone end
    redis.pcall('SET', lock .. ':fence', string.format('%.0f', floor), 'PX', idle_ms, 'NX')
  elseif its and its < tombstone and (its == last or tombstone <= latest + 1) then
    redis.pcall('SET', lock .. ':fence', string.format('%.0f', tombstone), 'PX', idle_ms)
  end
end
local function drop(lock, value, rest_ms, token)
  if not token then
    local found = redis.pcall('GET', lock)
    if found == value then return give_back(lock, value, rest_ms) end
    return refusal(lock, found)
  end
  local found, time = redis.call('MGET', lock, lock .. ':fence'), redis.call('TIME')
  local is_ours = found[1] == value
  local row = is_ours and give_back(lock, value, rest_ms) or refusal(lock, found[1])
  bury(lock, is_ours, found[2], time[1] * 1000000 + time[2], token)
  return row
end
