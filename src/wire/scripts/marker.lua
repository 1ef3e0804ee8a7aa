local function parts(marker)
  local run, config, open, why = string.match(marker, '^([^|]+)|([^|]+)|(%d+)|(%l+)$')
  if run and #open <= 16 then return run, config, tonumber(open), why end
end
