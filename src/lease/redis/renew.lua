-- Prolongs leases, and places in the queue, of one entity. Never creates a lease; a place that has become grantable is
-- granted.
--
-- ARGV, for each request: token, ttl, flags (w: the whole entity), how many of its scopes have keys, how many have none,
-- then their names, those with keys first. KEYS: those of all requests, in the same order.
-- Answers two numbers for each: 0 not there, 1 prolonged, 2 prolonged and somebody waits, 3 a place, 4 it could not be
-- done (no room, which only split scopes and places need; or a key of it holds something else); and for a place the
-- least time left of what is in its way, -1 for ever, -2 nothing is.

local answer, next_key, at = {}, 3, 1

local function hold_on(token, ttl, scopes)
  local wanted = false
  for _, scope in ipairs(scopes) do
    scope.lease, scope.left = read(scope)
    if not scope.lease or token_of(scope.lease) ~= token or flag_of(scope.lease) == 'r' then return nil end
    if flag_of(scope.lease) == '+' then wanted = true end
  end
  for _, scope in ipairs(scopes) do
    local lease = scope.lease
    if sub(lease, 59, 71) == '0000000000000' then
      -- Taken by a plain SET, which knows no time: what is left of it says when that was.
      local since = fmt('%013.0f', now - math.max(tonumber(sub(lease, 51, 58)) - scope.left, 0))
      if scope.key then redis.pcall('SETRANGE', scope.key, 58, since) end
    end
    if not prolong(scope, lease, ttl) then return 4 end
  end
  return wanted and 2 or 1
end

local function stay(token, scopes, whole)
  local place = redis.call('HGET', H, 'p:' .. token)
  if not place or tonumber(sub(place, 1, 13)) <= now then return 0, 0 end
  place = fmt('%013.0f', now + PLACE) .. sub(place, 14)
  local done = redis.pcall('HSET', H, 'p:' .. token, place)
  -- Not an error: the other leases of this batch are to be prolonged.
  if type(done) == 'table' and done.err then return 4, 0 end
  keep(H, 2 * PLACE)
  local keys, least = {}, nil
  for _, scope in ipairs(scopes) do
    redis.call('ZADD', Q, 0, scope.name .. '\0' .. sub(place, 14, 29) .. token)
    if scope.key then keys[scope.name] = scope.key end
  end
  keep(Q, 2 * PLACE)
  if not whole and promote(token, place, keys) == 'granted' then return 1, 0 end
  local asked = {}
  for i, scope in ipairs(scopes) do asked[i] = scope end
  if whole then
    for _, scope in ipairs(split_leases(token)) do asked[#asked + 1] = scope end
  end
  for _, scope in ipairs(asked) do
    local lease, left = read(scope)
    if lease and token_of(lease) == token then
      prolong(scope, lease, PLACE)
    elseif lease then
      if flag_of(lease) == '-' then
        set_flag(scope, lease, left, '+')
        tell(inbox_of(lease), 'W' .. token_of(lease))
      end
      if left >= 0 and (not least or left < least) then least = left end
      if left < 0 and not least then least = -1 end
    elseif head(scope.name) == token then
      reserve(scope, token, place)
    end
  end
  if not whole then
    local star, left = read({ name = '*' })
    if star and (not least or left < least) then least = left end
  end
  return 3, least or -2
end

while at <= #ARGV do
  local token, ttl = ARGV[at], tonumber(ARGV[at + 1])
  local whole = string.find(ARGV[at + 2], 'w', 1, true)
  local keyed, split = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local scopes = {}
  for i = 1, keyed + split do
    scopes[i] = { name = ARGV[at + 4 + i] }
    if i <= keyed then
      scopes[i].key = KEYS[next_key]
      next_key = next_key + 1
    end
  end
  at = at + 5 + keyed + split
  foreign = nil
  local state, left = hold_on(token, ttl, scopes), 0
  if not state then
    -- All is read before anything is written: what is not ours is left alone, and the other leases of this batch go on.
    for _, scope in ipairs(scopes) do read(scope) end
    if foreign then
      state = 4
    else
      state, left = stay(token, scopes, whole)
    end
  end
  answer[#answer + 1] = state
  answer[#answer + 1] = left
end
return answer
