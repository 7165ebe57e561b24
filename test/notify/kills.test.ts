import pg from 'pg';
import { expect, test } from 'vitest';
import { apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { type Server, startServer } from '../support/server.ts';
import { deliveriesOf, spawn, startNotifying, writeNotification } from './notify-scenario.ts';

/** The service is killed while there is a message in every state, and started again: each arrives, with the same id. */
test('a kill in every state of a message loses none', { timeout: 240_000 }, async () => {
  const started = await startNotifying({ env: { MUSTER_NOTIFICATION_SETTLE_SECONDS: '2' } });
  const { receiver, server } = started;
  const names = ['sending', 'answered', 'retried', 'settling', 'event'];
  let next: Server | undefined;
  try {
    for (const name of names)
      await writeNotification(started.api, name, {
        ...{ url: `${receiver.url}/${name}`, workspace: name, events: ['agent.needs_input'] },
      });
    // SENDING: the target never answers. QUEUED after a failure: it answers 500.
    receiver.answers.set('/sending', ['hang']);
    receiver.answers.set('/retried', [{ status: 500 }]);
    const ask = (workspace: string) => spawn(started.api, '!ask Well?', workspace);
    for (const name of ['sending', 'retried', 'answered']) await ask(name);
    for (const name of ['sending', 'retried', 'answered'])
      await until(
        `a post to ${name}`,
        async () => receiver.to(`/${name}`),
        (posts) => posts.length > 0,
      );
    await ask('settling');
    await until(
      'a message that settles',
      () => deliveriesOf(started.api, 'settling'),
      (all) => all.length > 0,
    );
    const { agent } = await ask('event');
    const database = new pg.Client({ connectionString: server.databaseUrl });
    await database.connect();
    await until(
      'the question',
      async () =>
        (
          await database.query("SELECT FROM agents WHERE path = $1 AND reason = 'QUESTION'", [
            agent.join('/'),
          ])
        ).rowCount,
      (count) => count === 1,
    );
    await server.end('SIGKILL');
    // As if it had been killed right after the commit: the event is not moved to its target.
    await database.query("DELETE FROM notification_deliveries WHERE target = 'event'");
    await database.query('DELETE FROM events');
    await database.query(
      `INSERT INTO events (tenant, type, agent, workspace, account, data, at)
       SELECT tenant, 'agent.needs_input', id, '', '', json_build_object('phase', phase, 'reason', reason), since
       FROM agents WHERE path = $1`,
      [agent.join('/')],
    );
    await database.end();
    const { MUSTER_DATA, MUSTER_BOOTSTRAP_KEY, MUSTER_ALLOW_INNER_HOSTS } = server.env;
    next = await startServer({
      databaseUrl: server.databaseUrl,
      runner: false,
      env: { MUSTER_DATA, MUSTER_BOOTSTRAP_KEY, MUSTER_ALLOW_INNER_HOSTS, MUSTER_SANDBOX: 'off' },
    });
    const api = apiOf(next);
    for (const name of names) {
      const [delivery] = await until(
        `the end of ${name}`,
        () => deliveriesOf(api, name),
        (all) => all.length === 1 && all[0]?.state === 'SENT',
      );
      const ids = receiver.to(`/${name}`).map(({ headers }) => headers['webhook-id']);
      expect(new Set(ids)).toEqual(new Set([delivery?.deliveryId]));
      expect(ids.length).toBe(name === 'sending' || name === 'retried' ? 2 : 1);
    }
  } finally {
    await next?.close();
    await started.close();
  }
});
