local function missing(locks, value, again)
  local free, ours = {}, {}
  local is_free = redis.pcall('EXISTS', unpack(locks)) == 0
  for i, lock in ipairs(locks) do
    local found = not is_free and redis.pcall('GET', lock)
    if is_free then
      free[i] = i
    elseif found ~= value or again ~= '1' then
      local why_not = refusal(lock, found)
      if why_not.err then return nil, why_not end
      if why_not[1] ~= -2 then return nil, {i, why_not} end
      free[#free + 1] = i
    else
      ours[#ours + 1] = lock
    end
  end
  return free, ours
end
