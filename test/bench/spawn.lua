-- Callers that spawn agents under names of their own.
local headers = { ["authorization"] = "Bearer " .. os.getenv("KEY"), ["content-type"] = "application/json" }
local run, n = os.getenv("ROUND"), 0
request = function()
  n = n + 1
  local body = '{"agentId":{"agent":["spawn-' .. run .. '-' .. n .. '"],"workspace":"default"},'
    .. '"description":"Fix the failing test in the login flow.","model":"rehearsal-a"}'
  return wrk.format("POST", "/v1/agent/spawn", headers, body)
end
