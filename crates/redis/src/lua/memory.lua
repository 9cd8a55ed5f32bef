-- Notes in the state for all, as INFO tells: the policy of eviction, the keys that were evicted, and 1 if no memory is left.
-- KEYS  1 state.
-- Returns {'DONE', why INFO failed or ''}.
local reply = redis.pcall('INFO')
local info = type(reply) == 'string' and reply or ''
local function field(name) return string.match(info, '\n' .. name .. ':([^\r\n]*)') or '' end
local most, used = tonumber(field('maxmemory')) or 0, tonumber(field('used_memory')) or 0
local memory = table.concat({field('maxmemory_policy'), field('evicted_keys'), most > 0 and used >= 0.99 * most and 1 or 0}, ' ')
local generation, before = unpack(redis.call('HMGET', KEYS[1], 'gen', 'memory'))
if generation and memory ~= before then
  redis.call('PERSIST', KEYS[1]) -- Allowed without free memory, and so is the write after it.
  redis.call('HSET', KEYS[1], 'memory', memory)
end
return {'DONE', type(reply) == 'table' and reply.err or ''}
