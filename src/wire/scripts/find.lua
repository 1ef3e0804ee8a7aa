-- KEYS: 1 lock   ARGV: 1 value, or the token that it begins with
local seen, named, from = inspect(KEYS), ARGV[1], 0
if #seen ~= 3 or type(seen[3]) == 'string' then return seen end
while true do
  local values = redis.call('ZRANGEBYSCORE', KEYS[1], whole(now_ms()), '+inf', 'LIMIT', from, '1000')
  for _, value in ipairs(values) do
    if value == named or #named == 40 and string.sub(value, 1, 41) == named .. ' ' then return {'READER', value} end
  end
  if #values < 1000 then return {-2} end
  from = from + 1000
end
