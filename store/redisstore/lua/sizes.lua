-- How much there is of everything that is not a key: how many members each of some sets has.
local sizes = {}
for i = 1, num() do
  local kind, name = arg(), P .. arg()
  sizes[i] = call(kind, name)
end
return sizes
