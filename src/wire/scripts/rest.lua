local function give_back(lock)
  local left = ARGV[#ARGV]
  redis.call('PEXPIRE', lock, left)
  redis.pcall('SET', lock, 'rest:' .. ARGV[1], 'PX', left)
  return 1
end
