-- Takes every scope or none, or a place in the queue. The same token finds its grant or its place again.
--
-- ARGV: token, inbox, ttl, ttl_max, flags (q: take a place, w: the whole entity, o: with the order), label, names
-- joined by commas, how many of the scopes have keys, then the names: those with keys first. With `o` the last key
-- keeps the last order given.
-- Answers {1, order, anomalies} | {0, place, anomalies, holders} | {2}; anomalies and holders are flat lists.

local token, inbox = ARGV[1], ARGV[2]
local ttl, ttl_max = tonumber(ARGV[3]), tonumber(ARGV[4])
local queue = string.find(ARGV[5], 'q', 1, true)
local whole = string.find(ARGV[5], 'w', 1, true)
local ordered = string.find(ARGV[5], 'o', 1, true)
local keyed = tonumber(ARGV[8])
local scopes, keys = {}, {}
for i = 9, #ARGV do
  local scope = { name = ARGV[i] }
  if i - 8 <= keyed then
    scope.key = KEYS[i - 6]
    keys[scope.name] = scope.key
  end
  scopes[#scopes + 1] = scope
end

-- Everything is read, and everything that may be refused is called, before the first write.
local mine, all_mine, anomalies = {}, true, {}
for _, scope in ipairs(scopes) do
  scope.lease, scope.left = read(scope)
  if scope.lease and token_of(scope.lease) == token then
    mine[#mine + 1] = scope
    if flag_of(scope.lease) == 'r' then all_mine = false end
  else
    all_mine = false
  end
end
if foreign then return redis.error_reply('FOREIGN ' .. foreign) end
local star, star_left
if not whole then star, star_left = read({ name = '*' }) end
redis.call('ZCARD', Q)

local function order()
  if not ordered then return '' end
  local key = KEYS[#KEYS]
  local last = tonumber(redis.call('GET', key) or '0') or 0
  local by_clock = clock[1] * 1000000 + clock[2]
  -- Beyond 2^53 a number is none of ours: counting on from it would lose bits.
  local next = last < 9007199254740991 and math.max(by_clock, last + 1) or by_clock
  next = fmt('%016.0f', next)
  redis.call('SET', key, next, 'PX', 86400000)
  return next
end

if all_mine then
  local number = sub(scopes[1].lease, 72, 87)
  if ordered and number == '0000000000000000' then
    number = order()
    for _, scope in ipairs(scopes) do
      if scope.key then
        redis.call('SETRANGE', scope.key, 71, number)
      else
        scope.lease = sub(scope.lease, 1, 71) .. number .. sub(scope.lease, 88)
      end
    end
  end
  for _, scope in ipairs(scopes) do
    if not prolong(scope, scope.lease, ttl) then return redis.error_reply('OOM no room') end
  end
  return { 1, ordered and number or '', anomalies }
end
-- Some of it has ended or was taken: what is left of it is worth nothing.
for _, scope in ipairs(mine) do
  if flag_of(scope.lease) ~= 'r' then
    free(scope)
    scope.lease = nil
  end
end

local place = redis.call('HGET', H, 'p:' .. token)
if place and tonumber(sub(place, 1, 13)) <= now then
  leave(token, place)
  place = nil
end
local blocked = star ~= nil and token_of(star) ~= token
local held, asked = {}, {}
for i, scope in ipairs(scopes) do asked[i] = scope end
if whole then
  for _, scope in ipairs(split_leases(token)) do asked[#asked + 1] = scope end
end
for _, scope in ipairs(asked) do
  local lease = scope.lease
  if lease and token_of(lease) ~= token then
    blocked = true
    if scope.left < 0 or scope.left > ttl_max then
      if scope.name ~= '*' then
        anomalies[#anomalies + 1] = scope.name
        anomalies[#anomalies + 1] = scope.left
      end
      scope.left = ttl_max
      if not prolong(scope, lease, ttl_max) then return redis.error_reply('OOM no room') end
    end
    held[#held + 1] = scope
  end
end
if blocked and star and token_of(star) ~= token and star_left > ttl_max then
  star_left = ttl_max
  if not prolong({ name = '*' }, star, ttl_max) then return redis.error_reply('OOM no room') end
end
local seq = place and sub(place, 14, 29)

if not blocked and not behind(token, seq, scopes, whole) then
  local number = order()
  if place then leave(token, place) end
  local star_waits, wanted = head('*'), false
  for _, scope in ipairs(scopes) do
    local waits = star_waits or (whole and redis.call('ZCARD', Q) > 0) or head(scope.name)
    if waits then wanted = true end
    local lease = '1' .. token .. (waits and '+' or '-') .. inbox .. fmt('%08d', ttl) .. fmt('%013.0f', now)
      .. (number == '' and '0000000000000000' or number) .. ARGV[7] .. '\n' .. ARGV[6]
    if not write(scope, lease, ttl) then return redis.error_reply('OOM no room') end
  end
  -- Those who wait have announced themselves before: nobody else would say it again.
  if wanted then tell(inbox, 'W' .. token) end
  return { 1, number, anomalies }
end

local by = {}
local function describe(name, lease, left)
  local since, granted_for = tonumber(sub(lease, 59, 71)), tonumber(sub(lease, 51, 58))
  local age = since > 0 and now - since or granted_for - left
  by[#by + 1] = name
  by[#by + 1] = string.match(lease, '\n(.*)$', 88) or ''
  by[#by + 1] = left
  by[#by + 1] = math.max(age, 0)
  by[#by + 1] = waiting(name)
end
if star and token_of(star) ~= token then
  for name in string.gmatch(string.match(sub(star, 88), '^[^\n]*'), '[^,]+') do
    if name ~= '*' then describe(name, star, star_left) end
  end
end
for _, scope in ipairs(held) do
  local starred = star and token_of(scope.lease) == token_of(star)
  if scope.name ~= '*' and not starred then describe(scope.name, scope.lease, scope.left) end
end
if not place and not queue then return { 0, 0, anomalies, by } end

if not place then
  if redis.call('HLEN', H) >= 10000 then sweep() end
  if redis.call('HLEN', H) >= 10000 then return { 2 } end
  local number = redis.pcall('HINCRBY', H, 'n', 1)
  if type(number) == 'table' then return number end
  seq = fmt('%016.0f', number)
  place = sub(fmt('%013.0f', now + PLACE), 1, 13) .. seq .. inbox .. fmt('%08d', ttl) .. ARGV[7] .. '\n' .. ARGV[6]
  if ARGV[7] == '' then
    place = sub(place, 1, 53) .. scopes[1].name .. '\n' .. ARGV[6]
  end
else
  place = fmt('%013.0f', now + PLACE) .. sub(place, 14)
end
redis.call('HSET', H, 'p:' .. token, place)
keep(H, 2 * PLACE)
for _, scope in ipairs(scopes) do redis.call('ZADD', Q, 0, scope.name .. '\0' .. seq .. token) end
keep(Q, 2 * PLACE)

local rank, rivals = 0, {}
if #scopes == 1 and not whole and not head('*') then
  local name = scopes[1].name
  head(name)
  rank = redis.call('ZLEXCOUNT', Q, '[' .. name .. '\0', '(' .. name .. '\0' .. seq)
else
  for _, other in ipairs(places()) do
    if other.token == token then break end
    local wants, meets = string.match(sub(other.place, 54), '^[^\n]*'), whole
    for name in string.gmatch(wants, '[^,]+') do
      if name == '*' then meets = true end
      for _, scope in ipairs(scopes) do
        if scope.name == name then meets = true end
      end
    end
    if meets then rank = rank + 1 end
  end
end
for _, scope in ipairs(scopes) do
  if scope.lease and token_of(scope.lease) == token then
    prolong(scope, scope.lease, PLACE)
  elseif not scope.lease and head(scope.name) == token then
    reserve(scope, token, place)
  end
end
for _, scope in ipairs(held) do
  if flag_of(scope.lease) == '-' then
    set_flag(scope, scope.lease, scope.left, '+')
    tell(inbox_of(scope.lease), 'W' .. token_of(scope.lease))
  end
end
if star and flag_of(star) == '-' then
  set_flag({ name = '*' }, star, star_left, '+')
  tell(inbox_of(star), 'W' .. token_of(star))
end
return { 0, rank + 1, anomalies, by }
