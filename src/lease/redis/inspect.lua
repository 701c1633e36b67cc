-- Who holds what of one entity.
--
-- ARGV: the names of the unsplit scopes, whose keys are KEYS[3] and after.
-- Answers a flat list, five for each: name, lease, time left, age, places in the queue that want it. Split scopes and the
-- whole entity (`*`) are all listed.

local by = {}
local function describe(name, lease, left)
  if flag_of(lease) == 'r' then return end
  local since, granted_for = tonumber(sub(lease, 59, 71)), tonumber(sub(lease, 51, 58))
  by[#by + 1] = name
  by[#by + 1] = lease
  by[#by + 1] = left
  by[#by + 1] = math.max(since > 0 and now - since or granted_for - left, 0)
  by[#by + 1] = waiting(name)
end

for i, name in ipairs(ARGV) do
  local lease, left = read({ name = name, key = KEYS[i + 2] })
  if lease then describe(name, lease, left) end
end
local flat = redis.call('HGETALL', H)
for i = 1, #flat, 2 do
  local left = sub(flat[i], 1, 2) == 's:' and tonumber(sub(flat[i + 1], 1, 13)) - now or 0
  if left > 0 then describe(sub(flat[i], 3), sub(flat[i + 1], 14), left) end
end
return by
