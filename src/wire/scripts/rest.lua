local function give_back(lock)
  local left = ARGV[#ARGV]
  local function set() return redis.pcall('SET', lock, 'rest:' .. ARGV[1], 'PX', left) end
  if set().err then
    redis.call('PEXPIRE', lock, left)
    set()
  end
  return 1
end
