-- What every script shares. Put before each of them when the program is built; nothing is put together at run time.
--
-- KEYS[1] is the entity's hash, KEYS[2] its queue, the others are the lease keys of unsplit scopes.
--
-- A lease is `1` token(32) flag(1) inbox(16) ttl(8) since(13) order(16) names `\n` label. Flag: `-` nobody waits,
-- `+` somebody waits, `r` not held: kept for that waiter. `names` is empty when it covers one unsplit scope.
-- Split scopes and the whole entity (`*`) are fields `s:<name>` of the hash: deadline(13) and the same text.
-- A place is the field `p:<token>`: deadline(13) seq(16) inbox(16) ttl(8) names `\n` label; and, for each name, the
-- member `<name>\0<seq><token>` of the queue. Times are milliseconds by this server's clock.

local H, Q = KEYS[1], KEYS[2]
local PLACE = 2000
local sub, fmt = string.sub, string.format
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local CHANNEL = string.match(H, '^[^:]*') .. ':inbox:'
local foreign

local function token_of(lease) return sub(lease, 2, 33) end
local function flag_of(lease) return sub(lease, 34, 34) end
local function inbox_of(lease) return sub(lease, 35, 50) end

-- What a scope holds and for how long still; -1 for ever.
local function read(scope)
  if scope.key then
    local lease = redis.call('GET', scope.key)
    if not lease then return nil end
    if sub(lease, 1, 1) ~= '1' or #lease < 88 then
      foreign = scope.key
      return nil
    end
    return lease, redis.call('PTTL', scope.key)
  end
  local field = redis.call('HGET', H, 's:' .. scope.name)
  if not field then return nil end
  local left = tonumber(sub(field, 1, 13)) - now
  if left <= 0 then return nil end
  return sub(field, 14), left
end

-- The hash and the queue live as long as the longest of what is in them.
local function keep(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end
end

-- Answers false when the server has no room.
local function write(scope, lease, ttl)
  local done
  if scope.key then
    done = redis.pcall('SET', scope.key, lease, 'PX', ttl)
  else
    done = redis.pcall('HSET', H, 's:' .. scope.name, fmt('%013.0f', now + ttl) .. lease)
    keep(H, ttl)
  end
  return not (type(done) == 'table' and done.err)
end

local function prolong(scope, lease, ttl)
  if scope.key then return redis.call('PEXPIRE', scope.key, ttl) end
  return write(scope, lease, ttl)
end

local function free(scope)
  if scope.key then return redis.call('DEL', scope.key) end
  return redis.call('HDEL', H, 's:' .. scope.name)
end

local function set_flag(scope, lease, left, flag)
  if scope.key then return redis.call('SETRANGE', scope.key, 33, flag) end
  return write(scope, sub(lease, 1, 33) .. flag .. sub(lease, 35), left)
end

local function tell(inbox, message) redis.call('PUBLISH', CHANNEL .. inbox, message) end

local function leave(token, place)
  for name in string.gmatch(string.match(sub(place, 54), '^[^\n]*'), '[^,]+') do
    redis.call('ZREM', Q, name .. '\0' .. sub(place, 14, 29) .. token)
  end
  redis.call('HDEL', H, 'p:' .. token)
  if redis.call('EXISTS', Q) == 0 then redis.call('HDEL', H, 'n') end
end

-- The first live place that wants the name: token, place. Dead ones in front of it are dropped.
local function head(name)
  while true do
    local first = redis.call('ZRANGEBYLEX', Q, '[' .. name .. '\0', '(' .. name .. '\1', 'LIMIT', 0, 1)[1]
    if not first then return nil end
    local token = sub(first, -32)
    local place = redis.call('HGET', H, 'p:' .. token)
    if place and tonumber(sub(place, 1, 13)) > now then return token, place end
    if place then leave(token, place) end
    redis.call('ZREM', Q, first)
  end
end

-- Places that want the name. Whoever waits for the whole entity is in the queue of its unsplit scopes too.
local function waiting(name)
  local count = redis.call('ZLEXCOUNT', Q, '[' .. name .. '\0', '(' .. name .. '\1')
  if string.find(name, ';', 1, true) then count = count + redis.call('ZLEXCOUNT', Q, '[*\0', '(*\1') end
  return count
end

-- Every live place, first come first.
local function places()
  local all, flat = {}, redis.call('HGETALL', H)
  for i = 1, #flat, 2 do
    if sub(flat[i], 1, 2) == 'p:' and tonumber(sub(flat[i + 1], 1, 13)) > now then
      all[#all + 1] = { token = sub(flat[i], 3), place = flat[i + 1] }
    end
  end
  table.sort(all, function(a, b) return sub(a.place, 14, 29) < sub(b.place, 14, 29) end)
  return all
end

-- Drops what has ended in the middle of the queue, where nothing else looks.
local function sweep()
  local flat = redis.call('HGETALL', H)
  for i = 1, #flat, 2 do
    local kind = sub(flat[i], 1, 2)
    local ended = kind ~= 'n' and tonumber(sub(flat[i + 1], 1, 13)) <= now
    if ended and kind == 'p:' then leave(sub(flat[i], 3), flat[i + 1]) end
    if ended and kind == 's:' then redis.call('HDEL', H, flat[i]) end
  end
end

-- The leases of split scopes that others than this token hold, as scopes.
local function split_leases(token)
  local all, flat = {}, redis.call('HGETALL', H)
  for i = 1, #flat, 2 do
    local name = string.match(flat[i], '^s:(.*)$')
    if name and name ~= '*' then
      local lease, left = sub(flat[i + 1], 14), tonumber(sub(flat[i + 1], 1, 13)) - now
      if left > 0 and token_of(lease) ~= token then all[#all + 1] = { name = name, lease = lease, left = left } end
    end
  end
  return all
end

-- Whether an earlier live place wants some of the same. `seq` is nil or false for somebody without a place.
local function behind(token, seq, scopes, whole)
  for _, scope in ipairs(scopes) do
    local first = head(scope.name)
    if first and first ~= token then return true end
  end
  if whole then
    for _, other in ipairs(places()) do
      if other.token == token then return false end
      return true
    end
    return false
  end
  local first, place = head('*')
  return first ~= nil and first ~= token and (not seq or sub(place, 14, 29) < seq)
end

-- The lease a place turns into. It lasts until the waiter could have confirmed it, so that a dead one costs no ttl.
local function granted(token, place, names, flag)
  local text = sub(place, 54)
  if #names == 1 and not string.find(names[1], ';', 1, true) then text = string.match(text, '\n.*$') end
  return '1' .. token .. flag .. sub(place, 30, 53) .. fmt('%013.0f', now) .. '0000000000000000' .. text
end

-- Gives a place what it waits for, when that is free and this script knows its keys.
-- Answers `granted`, `blocked`, or `far`: its own process has to try.
local function promote(token, place, keys)
  local names, scopes = {}, {}
  for name in string.gmatch(string.match(sub(place, 54), '^[^\n]*'), '[^,]+') do
    if name == '*' then return 'far' end
    local key = keys[name]
    if not key and not string.find(name, ';', 1, true) then return 'far' end
    names[#names + 1] = name
    scopes[#scopes + 1] = { name = name, key = key }
  end
  for _, scope in ipairs(scopes) do
    local lease = read(scope)
    if lease and token_of(lease) ~= token then return 'blocked' end
  end
  if read({ name = '*' }) or behind(token, sub(place, 14, 29), scopes, false) then return 'blocked' end
  local ttl = math.min(tonumber(sub(place, 46, 53)), PLACE)
  local wanted = '-'
  leave(token, place)
  local whole = head('*')
  for _, scope in ipairs(scopes) do
    local flag = (whole or head(scope.name)) and '+' or '-'
    if flag == '+' then wanted = '+' end
    if not write(scope, granted(token, place, names, flag), ttl) then return 'blocked' end
  end
  tell(sub(place, 30, 45), 'G' .. token .. wanted)
  return 'granted'
end

-- Keeps a free key for the waiter at the head of its queue, so that nobody passes it.
local function reserve(scope, token, place)
  if scope.key and redis.call('EXISTS', scope.key) == 0 then
    write(scope, granted(token, place, {}, 'r'), PLACE)
  end
end

-- Moves the queue on after these scopes became free.
local function move_on(scopes, keys, whole)
  local told = {}
  local function try(token, place, scope)
    if not told[token] then
      local outcome = promote(token, place, keys)
      if outcome == 'granted' then return end
      told[token] = true
      if outcome == 'far' then tell(sub(place, 30, 45), 'T' .. token) end
    end
    if scope then reserve(scope, token, place) end
  end
  if whole then
    for _, other in ipairs(places()) do
      try(other.token, other.place)
      -- Everybody after it waits for it.
      if string.find(',' .. string.match(sub(other.place, 54), '^[^\n]*') .. ',', ',*,', 1, true) then break end
    end
  end
  for _, scope in ipairs(scopes) do
    local token, place = head(scope.name)
    if token then try(token, place, scope) end
  end
  local token, place = head('*')
  if token and not whole then try(token, place) end
end
