-- A code host that sends the same signed event again and again, as a new delivery each time.
math.randomseed(os.time())
wrk.method = "POST"
wrk.path = os.getenv("TARGET")
wrk.body = os.getenv("BODY")
wrk.headers = {
  ["content-type"] = "application/json",
  ["x-github-event"] = "ping",
  ["x-hub-signature-256"] = os.getenv("SIGNATURE"),
}
request = function()
  wrk.headers["x-github-delivery"] = string.format("%08x-%08x", math.random(0, 2147483647), math.random(0, 2147483647))
  return wrk.format()
end
