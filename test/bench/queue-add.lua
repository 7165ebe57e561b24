-- 64 callers that queue follow-ups on 1,000 random agents.
math.randomseed(os.time())
local headers = { ["authorization"] = "Bearer " .. os.getenv("KEY"), ["content-type"] = "application/json" }
request = function()
  local body = '{"agentId":{"agent":["bench-' .. math.random(1, 1000) .. '"],"workspace":"default"},'
    .. '"description":"Please also look at the failing test in the login flow."}'
  return wrk.format("POST", "/v1/agent/queue", headers, body)
end
