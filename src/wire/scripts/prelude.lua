local function whole(number) return string.format('%.0f', number) end
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function has(letter) return string.find(ARGV[3] or '', letter, 1, true) end
local function last_end(lock)
  local last = redis.pcall('ZRANGE', lock, '-1', '-1', 'WITHSCORES')
  if last.err then return nil, string.find(last.err, 'WRONGTYPE', 1, true) and {-3} or last end
  if not last[1] then return 0 end
  local token, behind = string.match(last[1], '^(%x+)(.?)')
  local is_reader = token and #token == 40 and (behind == '' or behind == ' ')
  is_reader = is_reader and #last[2] < 16 and string.find(last[2], '^[1-9]%d*$')
  if is_reader and redis.call('PTTL', lock) >= 0 then return tonumber(last[2]) end
  return nil, is_reader and {-1, string.sub(last[1], 1, 274)} or {-3}
end
local function intent(name)
  local left = redis.pcall('PTTL', name .. ':redlatch:intent')
  return type(left) == 'number' and left >= 0 and left <= 60000 and left
end
local function refusal(lock, value)
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  local left = redis.call('PTTL', lock)
  if type(value) == 'string' then return {left, #value > (left == -1 and 39 or 40) and #value < 274 and value or nil} end
  if left == -2 then return {-2} end
  local last, why_not = last_end(lock)
  if not last then return why_not end
  local count = redis.pcall('ZCOUNT', lock, whole(now_ms()), '+inf')
  return type(count) == 'table' and count or {left, count}
end
local function each(act)
  if not KEYS[2] then return act(KEYS[1]) end
  local rows = {}
  for i, lock in ipairs(KEYS) do
    local _, row = pcall(act, lock)
    rows[i] = type(row) == 'string' and {err = row} or row
  end
  return rows
end
