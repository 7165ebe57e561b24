import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Log } from '../lib/log.ts';
import type { Metrics } from '../lib/metrics.ts';

const tickMs = 50;
const stallMs = 200;
const maxRoutes = 20;

/** By method. */
type ActiveRoutes = Map<string, Set<string>>;

const namesOf = (active: ActiveRoutes): string[] =>
  [...active].flatMap(([method, routes]) => [...routes].map((route) => `${method} ${route}`));

/**
 * Measures how long the event loop is blocked, by a timer that fires late. A stall is logged with the routes that were
 * active in this tick and the one before. One of them is the cause, or a run of this process's own runner. Returns a
 * function that notes a request as active.
 */
export function watchEventLoop(
  app: FastifyInstance,
  metrics: Metrics,
  log: Log,
): (request: FastifyRequest) => void {
  let active: ActiveRoutes = new Map();
  let activeBefore = active;
  let dueMs = performance.now() + tickMs;
  let cpu = process.cpuUsage();

  const note = ({ method, route }: FastifyRequest) => {
    const routes = active.get(method);
    if (!routes) active.set(method, new Set([route]));
    else if (routes.size < maxRoutes) routes.add(route);
  };
  const timer = setInterval(() => {
    const nowMs = performance.now();
    const lateMs = Math.max(0, nowMs - dueMs);
    metrics.observe('muster_event_loop_delay_seconds', {}, lateMs / 1000);
    if (lateMs > stallMs) {
      const { user, system } = process.cpuUsage(cpu);
      log.warn(
        {
          ms: Math.round(lateMs),
          cpuMs: Math.round((user + system) / 1000),
          routes: [...new Set([...namesOf(activeBefore), ...namesOf(active)])],
        },
        'event loop stalled',
      );
    }
    cpu = process.cpuUsage();
    dueMs = nowMs + tickMs;
    activeBefore = active;
    active = new Map();
  }, tickMs);
  timer.unref();
  app.addHook('onClose', (_app, done) => {
    clearInterval(timer);
    done();
  });
  return note;
}
