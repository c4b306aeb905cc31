-- Adds envelopes to a stream, but for those that it has had.
--
-- KEYS: the stream, and for each envelope the key that says so.
-- ARGV: how many entries to keep (all, if it is negative), for how many milliseconds
-- the keys last, and for each envelope the six values of its fields.
-- Returns for each envelope what went wrong, or nothing.

local outcomes = {}
for i = 2, #KEYS do
  local outcome = ''
  if redis.call('EXISTS', KEYS[i]) == 0 then
    local add = {'XADD', KEYS[1]}
    if tonumber(ARGV[1]) >= 0 then
      add[3], add[4], add[5] = 'MAXLEN', '~', ARGV[1]
    end
    add[#add + 1] = '*'
    local first = 3 + (i - 2) * 6
    for n, field in ipairs({'id', 'type', 'tenant', 'correlation', 'time', 'envelope'}) do
      add[#add + 1] = field
      add[#add + 1] = ARGV[first + n - 1]
    end
    -- The entry comes first. A script that fails is not undone: if the key were there
    -- and the entry not, the envelope would be taken for a duplicate and lost.
    local entry = redis.pcall(unpack(add))
    if type(entry) == 'table' and entry.err then
      outcome = entry.err
    else
      redis.call('SET', KEYS[i], entry, 'PX', ARGV[2])
    end
  end
  outcomes[i - 1] = outcome
end
return outcomes
