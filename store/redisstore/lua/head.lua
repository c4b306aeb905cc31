-- What every script begins with: the prefix of all keys, the arguments one by one, and
-- how names are written. The Go files name.go and doc.go say the same.
local P, ai = KEYS[1], 0
local call, sub, byte, char = redis.call, string.sub, string.byte, string.char
local pack, unpackStruct = struct.pack, struct.unpack

local function arg()
  ai = ai + 1
  return ARGV[ai]
end

local function num()
  ai = ai + 1
  return tonumber(ARGV[ai])
end

-- many calls a command with more arguments than Lua can pass at once.
local step = 4000
local function many(command, key, list)
  if #list <= step then
    return call(command, key, unpack(list))
  end
  local all = {}
  for i = 1, #list, step do
    local answer = call(command, key, unpack(list, i, math.min(i + step - 1, #list)))
    if type(answer) == 'table' then
      for j = 1, #answer do
        all[i + j - 1] = answer[j]
      end
    end
  end
  return all
end

-- wide is the same for a command whose arguments are all alike, or pairs.
local function wide(command, list)
  if #list <= step then
    return call(command, unpack(list))
  end
  local all = {}
  for i = 1, #list, step do
    local answer = call(command, unpack(list, i, math.min(i + step - 1, #list)))
    if type(answer) == 'table' and not answer.ok then
      for j = 1, #answer do
        all[i + j - 1] = answer[j]
      end
    end
  end
  return all
end

-- short and long write a name with its length before it, in one byte and in two.
local function short(s)
  return char(#s) .. s
end

local function long(s)
  return char(math.floor(#s / 256), #s % 256) .. s
end

-- single reads a message that is the only one of its key: when it is visible, its number,
-- its ID, and when it was put, its time to live and its body, as they are kept of others.
local function single(s)
  local visible, sid, _, _, length = unpackStruct('>I8c8I8I8I2', s)
  return visible, sid, sub(s, 35, 34 + length), sub(s, 17, 32) .. sub(s, 35 + length)
end

-- packHead writes what is stored of a key: its route, the length, first entry and tag of its
-- log, how many messages it has, its position in the partition, the attempts of a single message
-- and that message, and of its lease the token, the end and the messages. Without a lease
-- these are empty.
local function packHead(r, n, f, g, c, z, a, s, tok, u, d)
  return pack('>I4I4I4I4I8I2BBBI4', n, f, c, a, u, #r, #g, #z, #tok, #d) .. r .. g .. z .. tok .. d .. s
end

-- unpackHead reads the same.
local function unpackHead(raw)
  local n, f, c, a, u, rl, gl, zl, tl, dl = unpackStruct('>I4I4I4I4I8I2BBBI4', raw)
  local at = 34 + rl
  local r = sub(raw, 34, at - 1)
  local g = sub(raw, at, at + gl - 1)
  at = at + gl
  local z, tok, d = '', '', ''
  if zl > 0 then
    z = sub(raw, at, at + zl - 1)
    at = at + zl
  end
  if tl > 0 then
    tok, d = sub(raw, at, at + tl - 1), sub(raw, at + tl, at + tl + dl - 1)
    at = at + tl + dl
  end
  return r, n, f, g, c, z, a, sub(raw, at), tok, u, d
end

-- keyHead is what is stored of a key, as a list, and its single message.
local function keyHead(id)
  local raw = call('GET', P .. 'k' .. id)
  local h = raw and {unpackHead(raw)} or {'', 0, 0, '0', 0, '', 0, '', '', 0, ''}
  return h, h[8] ~= '' and h[8] or nil
end

-- parts is the queue, the tenant and the name of a key, or the kind, the tenant and the ID
-- of a record.
local function parts(id)
  local ql = byte(id, 1)
  local hi, lo = byte(id, ql + 2, ql + 3)
  local tl = hi * 256 + lo
  return sub(id, 2, ql + 1), sub(id, ql + 4, ql + 3 + tl), sub(id, ql + 4 + tl)
end
