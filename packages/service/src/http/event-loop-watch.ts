import type { FastifyInstance } from 'fastify';
import type { Log } from '../lib/log.ts';
import type { Metrics } from './metrics.ts';

const tickMs = 50;
const stallMs = 200;
const mostRoutes = 20;

/**
 * Everyone is served by one event loop: what holds it up holds up all. A timer that is late tells for how long. The
 * routes that are logged are those whose requests began, were parsed or were answered in this tick and the one before:
 * one of them is the cause, or a run of this process's own runner.
 */
export function watchEventLoop(app: FastifyInstance, metrics: Metrics, log: Log): void {
  let routes = new Set<string>();
  let routesBefore = routes;
  let dueMs = performance.now() + tickMs;
  let cpu = process.cpuUsage();

  const note = (method: string, url: string | undefined) => {
    if (routes.size < mostRoutes) routes.add(`${method} ${url ?? 'unknown'}`);
  };
  app.addHook('onRequest', ({ method, routeOptions }, _reply, done) => {
    note(method, routeOptions.url);
    done();
  });
  app.addHook('preHandler', ({ method, routeOptions }, _reply, done) => {
    note(method, routeOptions.url);
    done();
  });
  app.addHook('onSend', ({ method, routeOptions }, _reply, payload, done) => {
    note(method, routeOptions.url);
    done(null, payload);
  });

  const timer = setInterval(() => {
    const nowMs = performance.now();
    const lateMs = Math.max(0, nowMs - dueMs);
    metrics.observeLoopDelay(lateMs / 1000);
    if (lateMs > stallMs) {
      const { user, system } = process.cpuUsage(cpu);
      log.warn(
        {
          ms: Math.round(lateMs),
          cpuMs: Math.round((user + system) / 1000),
          routes: [...new Set([...routesBefore, ...routes])],
        },
        'event loop stalled',
      );
    }
    cpu = process.cpuUsage();
    dueMs = nowMs + tickMs;
    routesBefore = routes;
    routes = new Set();
  }, tickMs);
  timer.unref();
  app.addHook('onClose', (_app, done) => {
    clearInterval(timer);
    done();
  });
}
