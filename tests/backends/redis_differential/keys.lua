-- What is wrong with the keys of one record: a list of texts, empty when nothing is.
local bad, clock = {}, redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function wrong(text) bad[#bad + 1] = text end
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) == -1 then wrong('without end: ' .. key) end
end
local flat, held, places, live, dead = redis.call('HGETALL', KEYS[1]), {}, {}, 0, 0
local names = {}
for i, name in ipairs(ARGV) do
  local lease = redis.call('GET', KEYS[i + 2])
  if lease then held[name] = lease end
end
local number = false
for i = 1, #flat, 2 do
  local kind, left = string.sub(flat[i], 1, 2), 0
  if kind == 'n' then
    number = true
  else
    left = tonumber(string.sub(flat[i + 1], 1, 13)) - now
    if kind == 's:' and left > 0 then held[string.sub(flat[i], 3)] = string.sub(flat[i + 1], 14) end
    if kind == 'p:' then
      places[string.sub(flat[i], 3)] = { text = flat[i + 1], live = left > 0 }
      if left > 0 then live = live + 1 else dead = dead + 1 end
    end
  end
end
local function token(lease) return string.sub(lease, 2, 33) end
local function flag(lease) return string.sub(lease, 34, 34) end
local star = held['*']
for name, lease in pairs(held) do
  local covers = string.match(string.sub(lease, 88), '^[^\n]*')
  if flag(lease) == 'r' then
    local place = places[token(lease)]
    if not place or not place.live then wrong('kept for nobody: ' .. name) end
  else
    if star and token(star) ~= token(lease) then wrong('held beside the whole: ' .. name) end
    for other in string.gmatch(covers, '[^,]+') do
      if not held[other] or token(held[other]) ~= token(lease) or flag(held[other]) == 'r' then
        wrong('held in part: ' .. name .. ' without ' .. other)
      end
    end
    if places[token(lease)] and places[token(lease)].live then wrong('held and queued: ' .. name) end
  end
end
for _, member in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  local who = string.sub(member, -32)
  if not places[who] then wrong('in the queue without a place') end
end
for who, place in pairs(places) do
  for name in string.gmatch(string.match(string.sub(place.text, 54), '^[^\n]*'), '[^,]+') do
    local member = name .. '\0' .. string.sub(place.text, 14, 29) .. who
    if place.live and not redis.call('ZSCORE', KEYS[2], member) then wrong('a place not in the queue: ' .. name) end
  end
end
if live + dead == 0 and (number or redis.call('EXISTS', KEYS[2]) == 1) then wrong('an empty queue is kept') end
return bad
