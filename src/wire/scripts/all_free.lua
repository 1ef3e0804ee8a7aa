if redis.pcall('EXISTS', unpack(KEYS)) == 0 then return set_all(KEYS, ARGV[1], ARGV[2]) end
