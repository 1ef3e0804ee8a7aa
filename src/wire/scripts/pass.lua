local row = drop(KEYS[1], ARGV[9], nil, ARGV[10])
if row == 2 then return {2, 0} end
local _, taken = pcall(take)
return {row, type(taken) == 'string' and {err = taken} or taken}
