local function set_all(locks, value, ttl)
  for i, lock in ipairs(locks) do
    local set = redis.pcall('SET', lock, value, 'PX', ttl)
    if set.err then
      for before = 1, i - 1 do redis.call('DEL', locks[before]) end
      return set
    end
  end
  return redis.status_reply('OK')
end
