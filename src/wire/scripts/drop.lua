if is_deleted then return wake(KEYS[1]) end
if has('r') then return unread(KEYS[1]) end
if KEYS[2] and (ARGV[2] or '0') == '0' and not ARGV[4] then
  local found, beside, rows, is_ours = redis.pcall('MGET', unpack(KEYS)), {}, {}, true
  for i, lock in ipairs(KEYS) do
    is_ours = is_ours and found[i] == ARGV[1]
    beside[i * 2 - 1], beside[i * 2], rows[i] = lock .. ':redlatch:waiting', lock .. ':redlatch:intent', 1
  end
  if is_ours then
    redis.call('DEL', unpack(KEYS))
    if redis.pcall('EXISTS', unpack(beside)) == 0 then return rows end
    for i, lock in ipairs(KEYS) do rows[i] = wake(lock) end
    return rows
  end
end
return each(function(lock) return drop(lock, ARGV[1], ARGV[2], ARGV[4]) end)
