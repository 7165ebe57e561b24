import { createHmac, randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { ceiling, say, seconds } from './report.ts';
import {
  alternated,
  here,
  load,
  percentile,
  post,
  type Service,
  seedAgents,
  spawnTemplate,
  startProgram,
  startService,
} from './tools.ts';

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const queued = 10_000;

/** As large as a usual delivery. */
const body = JSON.stringify({ zen: 'Keep it logically awesome.', padding: 'x'.repeat(8_000) });

/** How fast deliveries of a code host are acknowledged, and whether many of them delay the commands of others. */
export async function deliveries(): Promise<void> {
  const service = await startService({ MUSTER_RUNNER: 'off' });
  await spawnTemplate(service);
  await seedAgents(service, 'bench-', 0, 1_000);
  const hook = await createIntegration(service);
  await acknowledgements(service, hook);
  await drain(service);
  await service.close();
}

interface Hook {
  readonly path: string;
  readonly signature: string;
}

async function createIntegration(service: Service): Promise<Hook> {
  const write = async (kind: string, name: string, document: object): Promise<Record<string, string>> => {
    const payload = Buffer.from(JSON.stringify(document)).toString('base64');
    const reply = await post<{ payload: string }>(service, `/v1/catalog/${kind}/${name}`, { payload });
    return JSON.parse(Buffer.from(reply.payload, 'base64').toString());
  };
  await write('secret', 'token', { value: 'not-used-by-this-benchmark' });
  const made = await write('integration', 'host', { type: 'github', token: { fromSecret: 'token' } });
  const digest = createHmac('sha256', made.signingKey ?? '')
    .update(body)
    .digest('hex');
  return { path: new URL(made.webhookUrl ?? '').pathname, signature: `sha256=${digest}` };
}

async function acknowledgements(service: Service, { path, signature }: Hook): Promise<void> {
  await service.database.query('CREATE TABLE bench_rows (id bigserial PRIMARY KEY, body text NOT NULL)');
  const bare = await startProgram(here('bare-writer.mjs'), [], { ...service.pgEnv });
  const rates = await alternated({
    bare: () => load(bare.url, 'deliver.lua', seconds, { TARGET: '/', BODY: body, SIGNATURE: signature }),
    acknowledged: () =>
      load(service.url, 'deliver.lua', seconds, { TARGET: path, BODY: body, SIGNATURE: signature }),
  });
  bare.child.kill();
  say(
    `      64 senders: bare route ${rates.bare.toFixed(0)}/s, deliveries ${rates.acknowledged.toFixed(0)}/s`,
  );
  ceiling(
    'time to acknowledge a delivery against a bare route that writes a row',
    rates.bare / rates.acknowledged,
    3,
  );
}

/** Commands while many deliveries wait to be processed, against commands when nothing else happens. */
async function drain(service: Service): Promise<void> {
  await untilDrained(service);
  const quiet = await queueAddP99(service, async () => void (await sleep(5_000)));
  await service.database.query(
    `INSERT INTO deliveries (tenant, integration, id, event, state, reason, headers, body, bytes, attempts,
       received_at, next_at)
     SELECT 1, 'host', '${randomUUID()}-' || n, 'ping', 'RECEIVED', '', '{"x-github-event": "ping"}', $1, $2, 0,
       now(), now()
     FROM generate_series(1, ${queued}) n`,
    [gzipSync(body), body.length],
  );
  const from = performance.now();
  const busy = await queueAddP99(service, () => untilDrained(service));
  say(`      ${queued} deliveries were processed in ${((performance.now() - from) / 1000).toFixed(1)} s`);
  say(`      queue-add p99: quiet ${quiet.toFixed(1)} ms, meanwhile ${busy.toFixed(1)} ms`);
  ceiling('queue-add p99 while deliveries are processed, against quiet', busy / quiet, 3);
}

async function untilDrained(service: Service): Promise<void> {
  for (;;) {
    const { rows } = await service.database.query('SELECT FROM deliveries WHERE next_at IS NOT NULL LIMIT 1');
    if (rows.length === 0) return;
    await sleep(50);
  }
}

/** The 99th percentile of queue-add at 100 per second while something else happens. */
async function queueAddP99(service: Service, during: () => Promise<void>): Promise<number> {
  const delays: number[] = [];
  let isOver = false;
  const over = during().then(() => {
    isOver = true;
  });
  const sent: Promise<void>[] = [];
  for (let i = 0; !isOver; i += 1) {
    const at = performance.now();
    const agentId = { agent: [`bench-${(i % 1_000) + 1}`] };
    sent.push(
      post(service, '/v1/agent/queue', { agentId, description: 'go' }).then(() => {
        delays.push(performance.now() - at);
      }),
    );
    await sleep(10);
  }
  await over;
  await Promise.all(sent);
  return percentile(delays, 0.99);
}
