-- The time, which does not run backwards, and whether the store is somebody else's.
local me, clock = arg(), arg()
local meta = call('HMGET', P .. 'meta', 'now', 'seq', 'turn', 'owner', 'owned', 'changes')
local stored, seq, turn = tonumber(meta[1]) or 0, tonumber(meta[2]) or 0, tonumber(meta[3]) or 0

local function serverTime()
  local t = call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local now = clock == '' and serverTime() or tonumber(clock)
if now < stored then
  now = stored
end
local owner = meta[4]
if owner and owner ~= me and serverTime() < tonumber(meta[5]) then
  return {'in use'}
end

local changes = tonumber(meta[6]) or 0 -- of records, so that a count knows whether there were any
local seq0, turn0, changes0 = seq, turn, changes

-- remember writes down what the next script must know.
local function remember(upTo)
  seq0 = math.max(seq, upTo or 0)
  turn0, changes0 = turn, changes
  stored = now
  call('HSET', P .. 'meta', 'now', now, 'seq', seq0, 'turn', turn, 'changes', changes)
end

local function rememberChanges()
  if now > stored or seq > seq0 or turn ~= turn0 or changes ~= changes0 then
    remember(seq0)
  end
end

-- evenIfFull has the script go on when the server is at its memory limit: it refuses only
-- the first write of a script, and only one that needs memory. What frees memory, or has
-- somebody work on what there is, must go on.
local function evenIfFull()
  call('DEL', P .. 'none')
end
