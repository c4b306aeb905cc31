-- Messages of a key, in order, from an index on: up to limit, and up to the bytes allowed.
local id, from, limit, most = arg(), num(), num(), num()
local h, s = keyHead(id)
local answer, size = {h[1]}, 0
if s then
  if from == 0 and limit > 0 then
    local visible, _, mid, raw = single(s)
    answer[2], answer[3], answer[4], answer[5] = mid, visible, h[7], raw
  end
  return answer
end
while from < limit do
  local list = call('ZRANGE', P .. 'o' .. id, from, math.min(from + 99, limit - 1), 'WITHSCORES')
  local names = {}
  for i = 1, #list, 2 do
    names[#names + 1] = sub(list[i], 9)
  end
  if #names == 0 then
    return answer
  end
  local heads = call('HMGET', P .. 'n' .. id, unpack(names))
  for i = 1, #names do
    local sid, attempt, length = unpackStruct('>c8I4I4', heads[i])
    if size + length > most and #answer > 1 then
      return answer
    end
    size = size + length
    answer[#answer + 1] = sub(list[2 * i - 1], 9)
    answer[#answer + 1] = tonumber(list[2 * i])
    answer[#answer + 1] = attempt
    answer[#answer + 1] = call('HGET', P .. 'b', sid)
  end
  from = from + #names
end
return answer
