-- Lists leases, so that they can be shown without a search through all keys. KEYS: the list in order, and the times
-- its members are dropped at; ARGV: how long these members stay (ms), then the members.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local life = tonumber(ARGV[1])
redis.call('ZCARD', KEYS[1])
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[2], now + life, ARGV[i])
  redis.call('ZADD', KEYS[1], 0, ARGV[i])
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 500)) do
  redis.call('ZREM', KEYS[1], member)
  redis.call('ZREM', KEYS[2], member)
end
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < life then redis.call('PEXPIRE', key, life) end
end
return redis.status_reply('OK')
