-- The time, which does not run backwards, and whether the store is somebody else's.
local me, clock = arg(), arg()
local meta = call('HMGET', P .. 'meta', 'state', 'owner', 'owned')
local stored, seq, turn, changes = 0, 0, 0, 0 -- of records, so that a count knows whether there were any
if meta[1] then
  stored, seq, turn, changes = unpackStruct('>I8I8I8I8', meta[1])
end

-- serverTime is the time, as a number and as text, in milliseconds.
local function serverTime()
  local t = call('TIME')
  local at = t[1] .. sub('00000' .. t[2], -6, -4)
  return tonumber(at), at
end

local now, nowText
if clock == '' then
  now, nowText = serverTime()
else
  now, nowText = tonumber(clock), clock
end
-- A server whose clock is far behind what is stored has a clock that is right, and what is
-- stored is from one that was wrong: see store.MaxClockLead.
local lead = math.max(0, stored - now)
if lead > 10000 then
  lead = 0
elseif lead > 0 then
  now, nowText = stored, string.format('%.0f', stored)
end

-- text writes a number. The server takes long for large ones; most times are now, or what
-- was written last.
local textOf, texted = nil, nil
local function text(n)
  if n == now then
    return nowText
  end
  if n ~= textOf then
    textOf, texted = n, string.format('%.0f', n)
  end
  return texted
end

local owner = meta[2]
if owner and owner ~= me and serverTime() < tonumber(meta[3]) then
  return {'in use'}
end

local seq0, turn0, changes0 = seq, turn, changes

-- remember writes down what the next script must know. With pcall it returns what the
-- server says if it refuses to.
local function remember(upTo, how)
  seq0 = math.max(seq, upTo or 0)
  turn0, changes0 = turn, changes
  stored = now
  return (how or call)('HSET', P .. 'meta', 'state', pack('>I8I8I8I8', now, seq0, turn, changes))
end

local function rememberChanges()
  if now ~= stored or seq > seq0 or turn ~= turn0 or changes ~= changes0 then
    remember(seq0)
  end
end

-- evenIfFull has the script go on when the server is at its memory limit: it refuses only
-- the first write of a script, and only one that needs memory. What frees memory, or has
-- somebody work on what there is, must go on.
local function evenIfFull()
  call('DEL', P .. 'none')
end
