local function each(KEYS, ARGV)
  local replies = {}
  for i, lock in ipairs(KEYS) do
    local _, reply = pcall(one, {lock}, ARGV)
    replies[i] = type(reply) == 'string' and {err = reply} or reply
  end
  return replies
end
