-- The store's time, which never runs backwards, and the check that no other process holds the
-- store exclusively.
local me, clock = arg(), arg()
local meta = call('HMGET', P .. 'meta', 'state', 'owner', 'owned')
local stored, seq, turn, changes = 0, 0, 0, 0 -- changes: of records, so that a count detects concurrent ones
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
-- If the server's clock is far behind the stored time, the stored time is taken to be wrong,
-- and is ignored: see store.MaxClockLead.
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

-- remember stores the state that the next script reads. With pcall as how, it returns the
-- server's error if the write is refused.
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

-- evenIfFull lets a script write although the server is at its memory limit: the server
-- refuses only the first write of a script, and only a command that may need memory, so this
-- one deletes. Scripts that free memory, or lease what is stored already, must not be refused.
local function evenIfFull()
  call('DEL', P .. 'none')
end
