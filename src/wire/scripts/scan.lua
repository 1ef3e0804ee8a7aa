-- ARGV: 1 cursor 2 pattern 3 count 4 longest_value
local function may_be_lock(key)
  local length = redis.pcall('STRLEN', key)
  if type(length) == 'number' then return length <= tonumber(ARGV[4]) end
  if not string.find(length.err, 'WRONGTYPE', 1, true) then return nil, {err = length.err .. ': STRLEN'} end
  local last, why_not = last_end(key)
  return last, why_not and why_not.err and {err = why_not.err .. ': ZRANGE'}
end
local count = tonumber(ARGV[3])
while true do
  local page = redis.pcall('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', count)
  if page.err then return {err = page.err .. ': SCAN'} end
  local found, size = {page[1]}, 0
  for _, key in ipairs(page[2]) do
    local is_beside = string.find(key, ':redlatch:', 1, true) and not string.find(key, ':redlatch:slot:%d+$')
    is_beside = is_beside or string.sub(key, -6) == ':fence' or string.sub(key, -13) == 'redlatch:node'
    if not is_beside and #key <= 65536 and redis.call('PTTL', key) >= 0 then
      local is_listed, failure = may_be_lock(key)
      if failure then return failure end
      if is_listed then found[#found + 1], size = key, size + #key + 16 end
    end
  end
  if size <= 16384 or count == 1 then return found end
  count = math.max(1, math.floor(count / 8))
end
