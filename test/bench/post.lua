-- Callers that post the same body again and again; a "#" in it becomes a number from FROM to TO.
math.randomseed(os.time())
local headers = { ["authorization"] = "Bearer " .. os.getenv("KEY"), ["content-type"] = "application/json" }
local body, from, to = os.getenv("BODY"), tonumber(os.getenv("FROM") or 0), tonumber(os.getenv("TO") or 0)
wrk.method = "POST"
wrk.path = os.getenv("TARGET")
wrk.headers = headers
wrk.body = body
if to > 0 then
  request = function()
    return wrk.format(nil, nil, nil, (body:gsub("#", math.random(from, to))))
  end
end
