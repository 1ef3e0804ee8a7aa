local id, why_not = process()
if why_not == 'CLUSTER' then return redis.status_reply(why_not) end
return id
