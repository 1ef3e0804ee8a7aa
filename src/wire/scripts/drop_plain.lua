local is_deleted
if not ARGV[2] and not KEYS[2] and redis.pcall('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  if redis.pcall('EXISTS', KEYS[1] .. ':redlatch:waiting', KEYS[1] .. ':redlatch:intent') == 0 then return 1 end
  is_deleted = true
end
