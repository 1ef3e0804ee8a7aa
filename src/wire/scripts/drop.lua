if is_deleted then return wake(KEYS[1]) end
if has('r') then return unread(KEYS[1]) end
return each(function(lock) return drop(lock, ARGV[1], ARGV[2], ARGV[4]) end)
