import { describe, expect, it } from 'vitest';
import { uniqueName } from '../support/catalog.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { type Fields, TestTrigger } from './requests.ts';

const { api } = await useSharedServer({ runner: false });

describe('a document is refused', () => {
  it.each([
    ['message', { agentId: { agent: ['a'] }, message: 'x {{foo.bar}}' }, 'body.a.b, header.x or query.x'],
    ['message', { agentId: { agent: ['a'] }, message: 'x {{body.a' }, 'must be closed'],
    ['message', { spawn: {}, message: 'x' }, 'spawn.description'],
    ['spawn', { spawn: {}, agentId: { agent: ['a'] } }, 'one of the two'],
    ['spawn.description', { spawn: { description: '{{body..a}}' } }, 'single dots'],
    ['spawn.description', { spawn: { description: '{{header.authorization}}' } }, 'without a secret'],
    ['spawn.description', { spawn: { description: '{{query.a.b}}' } }, 'one name'],
    ['spawn.description', { spawn: { description: '{{body}}'.repeat(51) } }, 'at most 50'],
    ['spawn.name', { spawn: { name: '{{}}' } }, 'body.a.b'],
    ['spawn.name', { spawn: { name: 'a', agentId: { agent: ['b'] } } }, 'one of the two'],
    ['spawn.agentId.agent[1]', { spawn: { agentId: { agent: ['a', '{{x}}'] } } }, 'body.a.b'],
    ['spawn.labels.x', { spawn: { labels: { x: '{{ header }}' } } }, 'one name'],
    [
      'filter[1].path',
      {
        spawn: {},
        filter: [
          { path: 'body.a', equals: 1 },
          { path: 'x', equals: 1 },
        ],
      },
      'body.a.b',
    ],
    ['filter[0]', { spawn: {}, filter: [{ path: 'body.a' }] }, 'one of equals, in and glob'],
    [
      'filter[0]',
      { spawn: {}, filter: [{ path: 'body.a', equals: 1, glob: '*' }] },
      'one of equals, in and glob',
    ],
    ['dedupe', { spawn: {}, dedupe: 'a.b' }, 'body.a.b'],
    ['auth', { spawn: {}, auth: 'none' }, 'hmac-sha256'],
    ['signatureHeader', { spawn: {}, signatureHeader: 'a b' }, 'the name of a header'],
    ['maxPerHour', { spawn: {}, maxPerHour: 0 }, 'from 1 to 10000'],
  ])('with a wrong %s: %j', async (field, document, expected) => {
    const { status, body } = await api.post<{ details: { fieldViolations: Fields[] }[] }>(
      `/v1/catalog/trigger/${uniqueName('wrong')}`,
      { payload: Buffer.from(JSON.stringify(document)).toString('base64') },
    );
    expect(status).toBe(400);
    const [violation] = body.details[0]?.fieldViolations ?? [];
    expect(violation?.field).toBe(`payload.${field}`);
    expect(violation?.description).toContain(expected);
  });

  it('but not with null where a field may be absent', async () => {
    const nothing = {
      filter: null,
      dedupe: null,
      auth: null,
      signatureHeader: null,
      maxPerHour: null,
      paused: null,
    };
    const trigger = await TestTrigger.create(api, {
      ...nothing,
      agentId: null,
      message: null,
      webhookSecret: null,
      spawn: {},
    });
    expect((await trigger.take({})).state).toBe('DONE');
  });
});
