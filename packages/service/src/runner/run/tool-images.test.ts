import { type CallOptions, type MusterClient, MusterError } from '@muster/sdk';
import { limits, type ReportItem, type ReportRequest } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { ValueMask } from '../../lib/value-mask.ts';
import { LiveOutput } from '../live-output.ts';
import { ReportStream } from './report-stream.ts';
import { ToolImages } from './tool-images.ts';

const mask = new ValueMask(['hidden-value']);
const token = 'mst_a.secret';
const run = { agentKey: 'a', runId: 1 };

const gif = (text = ''): string => Buffer.from(`GIF89a${text}`).toString('base64');

/** What was reported and uploaded through a client that answers uploads like this. */
function open(save: () => Promise<object>) {
  const reported: ReportItem[] = [];
  const uploaded: string[] = [];
  const client = {
    call: async (route: string, body: ReportRequest, { upload }: CallOptions) => {
      if (route !== 'runnerSaveAttachment') {
        reported.push(...(body.items ?? []));
        return { activeTaskIds: [] };
      }
      uploaded.push(Buffer.from(upload ?? []).toString());
      return save();
    },
  } as unknown as MusterClient;
  const images = new ToolImages({ ...run, client, runnerId: 'r', mask, token });
  const nothing = () => {};
  const stream = new ReportStream({
    ...run,
    ...{ client, runnerId: 'r', token, mask, images, maxItems: 500, textLength: 1000 },
    output: new LiveOutput(async () => {}).open(run, mask, token),
    mayAct: () => true,
    renewLease: () => {},
    ...{ onPush: nothing, onReply: nothing, onFenced: nothing, onDropped: nothing, onFailed: nothing },
  });
  const add = (...sent: string[]) => stream.queue.item({ type: 'TOOL_RESULT', data: { id: 'call' } }, sent);
  return { add, stream, reported, uploaded };
}

const stored = async () => ({ attachmentId: 'stored' });

describe('images of tools', () => {
  it('are uploaded before their item is reported, in order with the others', async () => {
    const { add, stream, reported, uploaded } = open(stored);
    stream.queue.item({ type: 'MESSAGE', text: 'before' });
    // The end of the second could be the beginning of a secret, and is none.
    add(gif('1'), gif('2h'));
    stream.queue.item({ type: 'MESSAGE', text: 'after' });
    await stream.send();
    expect(uploaded).toEqual(['GIF89a1', 'GIF89a2h']);
    expect(reported).toEqual([
      { type: 'MESSAGE', text: 'before' },
      { type: 'TOOL_RESULT', data: { id: 'call', attachmentIds: ['stored', 'stored'] } },
      { type: 'MESSAGE', text: 'after' },
    ]);
  });

  it('are left out if they are no image, too large, too many, or contain a secret or the key of the run', async () => {
    const { add, stream, uploaded } = open(stored);
    add(Buffer.from('<svg/>').toString('base64'), '', '%%%', gif(' hidden-value'), gif(token));
    add(Buffer.from(`GIF89a${'x'.repeat(limits.attachmentBytes)}`).toString('base64'));
    for (let i = 0; i < limits.toolImagesPerRun + 5; i += 1) add(gif(`${i}`));
    await stream.send();
    expect(uploaded).toEqual(Array.from({ length: limits.toolImagesPerRun - 2 }, (_, i) => `GIF89a${i}`));
  });

  it('are left out beyond the memory of the queue, and their items are kept', async () => {
    const { add, stream, reported, uploaded } = open(stored);
    for (let i = 0; i < 5; i += 1) add(gif('x'.repeat(limits.attachmentBytes - 6)));
    await stream.send();
    expect(reported).toHaveLength(5);
    expect(uploaded).toHaveLength(2);
  });

  it('are not tried again and again: their items are reported without them', async () => {
    const { add, stream, reported, uploaded } = open(async () => {
      throw new MusterError(429, { message: 'full' });
    });
    for (let i = 0; i < 6; i += 1) add(gif(`${i}`));
    await stream.send();
    expect(uploaded).toHaveLength(3);
    expect(reported).toEqual(Array(6).fill({ type: 'TOOL_RESULT', data: { id: 'call' } }));
  });
});
