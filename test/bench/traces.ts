import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gate, say, seconds } from './report.ts';
import { alternated, load, startForQueueAdd } from './tools.ts';

/** What traces cost: queue-add without a collector, with one, and with one that can't be reached. */
export async function traces(): Promise<void> {
  let bytes = 0;
  const collector = createServer((request, response) => {
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    request.on('end', () => response.end('{}'));
  }).listen(0, '127.0.0.1');
  await once(collector, 'listening');
  const { port } = collector.address() as AddressInfo;
  const to = (endpoint: string) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
  const off = await startForQueueAdd();
  const on = await startForQueueAdd(to(`http://127.0.0.1:${port}`));
  const lost = await startForQueueAdd(to('http://127.0.0.1:1'));
  const queueAdd = ({ url, key }: typeof off) => load(url, 'queue-add.lua', seconds, { KEY: key });
  const rates = await alternated({
    off: () => queueAdd(off),
    on: () => queueAdd(on),
    lost: () => queueAdd(lost),
  });
  for (const service of [off, on, lost]) await service.close();
  collector.closeAllConnections();
  collector.close();
  say(
    `      queue-add without traces ${rates.off.toFixed(0)}/s, with ${rates.on.toFixed(0)}/s (${(bytes / 1024 ** 2).toFixed(0)} MiB sent), without a reachable collector ${rates.lost.toFixed(0)}/s`,
  );
  gate('queue-add with traces, against without', rates.on / rates.off, 0.95);
  gate('queue-add while the collector is unreachable, against without', rates.lost / rates.off, 0.95);
}
