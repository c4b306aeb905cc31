-- The versions of records; 0 of those that are not there.
local versions = {}
for i = 1, num() do
  local raw = call('GETRANGE', P .. 'r' .. arg(), 0, 7)
  versions[i] = raw == '' and 0 or unpackStruct('>I8', raw)
end
return versions
