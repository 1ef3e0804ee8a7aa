local function field(section, name)
  local info = redis.pcall('INFO', section)
  if type(info) == 'table' then return nil, string.sub(info.err, 1, 200) end
  if string.find(info, '_mode:cluster', 1, true) then return nil, 'CLUSTER' end
  local _, at = string.find(info, name, 1, true)
  return at and string.match(info, '^(%w+)%s', at + 1)
end
local function process()
  local id, why = field('server', '\nrun_id:')
  if not id and not why then id, why = field('replication', '\nmaster_replid:') end
  return id, why or 'INFO has neither a run_id nor a master_replid'
end
