-- KEYS: a lock and its counter, for each, and the marker if one has it   ARGV: those of each
local replies, marker = {}, #KEYS % 2 == 1 and KEYS[#KEYS]
for i = 1, #KEYS - 1, 2 do
  local _, reply = pcall(one, {KEYS[i], KEYS[i + 1], marker}, ARGV)
  replies[#replies + 1] = type(reply) == 'string' and {err = reply} or reply
end
return replies
