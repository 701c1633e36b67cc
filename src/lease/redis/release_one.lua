-- The common release: one unsplit scope that nobody waits for.
if ARGV[3] == '1' and #ARGV == 4 then
  local lease = redis.call('GET', KEYS[3])
  if lease and string.sub(lease, 1, 34) == '1' .. ARGV[1] .. '-' and ARGV[2] == '' then
    redis.call('DEL', KEYS[3])
    return 1
  end
end
