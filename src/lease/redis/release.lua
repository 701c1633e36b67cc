-- Forgets a token, held or queued, and hands over to who comes next.
--
-- ARGV: token, flags (w: the whole entity, b: an operator breaks it), how many of the scopes have keys, then the
-- names: those with keys first. The common case, one scope that nobody waits for, is done by `release_one`, which comes
-- before everything else.
-- Answers 0 nothing of it was there, 1 it is gone, 2 it is gone and somebody waited.

local token = ARGV[1]
local whole = string.find(ARGV[2], 'w', 1, true)
local keyed = tonumber(ARGV[3])
local scopes, keys = {}, {}
for i = 4, #ARGV do
  local scope = { name = ARGV[i] }
  if i - 3 <= keyed then
    scope.key = KEYS[i - 1]
    keys[scope.name] = scope.key
  end
  scopes[#scopes + 1] = scope
end

local mine, intact, waited = {}, true, false
for _, scope in ipairs(scopes) do
  local lease = read(scope)
  if lease and token_of(lease) == token then
    scope.lease = lease
    mine[#mine + 1] = scope
    if flag_of(lease) ~= '-' then waited = true end
    if flag_of(lease) == 'r' then intact = false end
  else
    intact = false
  end
end
if foreign then return redis.error_reply('FOREIGN ' .. foreign) end
redis.call('ZCARD', Q)
local place = redis.call('HGET', H, 'p:' .. token)
local live = place and tonumber(sub(place, 1, 13)) > now

if #mine == 0 and not place then return 0 end
if place then leave(token, place) end
for _, scope in ipairs(mine) do free(scope) end
if string.find(ARGV[2], 'b', 1, true) and mine[1] then tell(inbox_of(mine[1].lease), 'B' .. token) end
move_on(place and scopes or mine, keys, whole)
if not intact and not live then return 0 end
return waited and 2 or 1
