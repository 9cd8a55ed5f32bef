-- Precedes other scripts. Calls a command for a key that may hold the data of another program. Returns an error that
-- such data causes: the key has another type, or its stream accepts no further entry. Any other error, such as a denied
-- command, ends the script.
local function try(...)
  local reply = redis.pcall(...)
  local refusal = type(reply) == 'table' and reply.err
  if refusal and not (string.find(refusal, 'wrong kind of value', 1, true) or string.find(refusal, 'exhausted', 1, true)) then return redis.call(...) end
  return reply
end

