-- Callers that post the same body again and again.
wrk.method = "POST"
wrk.path = os.getenv("TARGET")
wrk.headers["authorization"] = "Bearer " .. os.getenv("KEY")
wrk.headers["content-type"] = "application/json"
wrk.body = os.getenv("BODY")
