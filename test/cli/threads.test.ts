import type { ReplyOf, Thread } from '@muster/sdk/contract';
import { beforeAll, expect, test } from 'vitest';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });
let t: TestTenant;
let agent = '';

beforeAll(async () => {
  t = await newTestTenant(ada.api);
  agent = `${t.workspace}:reviewed`;
  await t.spawn('reviewed');
});

test('threads are added, listed, replied to, resolved and opened again', async () => {
  expect((await ada.muster(['threads', agent])).err).toContain('has no review threads');
  const added = await ada.muster(['threads', 'add', agent, 'src/login.ts:12-20', 'What if it is empty?']);
  const id = added.out.trim();
  expect({ code: added.code, id }).toEqual({ code: 0, id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
  const { threads } = await ada.data<ReplyOf<'createReview'>>([
    'threads',
    'add',
    agent,
    'README.md',
    'Say so.',
  ]);
  expect(threads).toMatchObject([{ path: 'README.md', line: 0 }]);
  expect((await ada.muster(['threads', agent])).out).toMatch(
    /ID +STATE +ANSWER +PLACE +LAST\n.* OPEN +PENDING +src\/login\.ts:12-20 +admin: What if it is empty\?\n/,
  );
  expect((await ada.muster(['threads', 'reply', agent, id, 'Or blank?'])).code).toBe(0);
  expect((await ada.muster(['threads', 'resolve', agent, id])).out).toBe('RESOLVED\n');
  const open = await ada.data<Thread[]>(['threads', 'ls', agent, '--open']);
  expect(open.map(({ path }) => path)).toEqual(['README.md']);
  expect((await ada.muster(['threads', 'reopen', agent, id])).out).toBe('OPEN\n');
});

test('a place without a file is a usage error, and a path that leaves the repository is refused', async () => {
  for (const place of [
    ':12',
    'README.md:abc',
    'README.md:12-x',
    'README.md:20-12',
    'README.md:0',
    'README.md:',
  ])
    expect(await ada.muster(['threads', 'add', agent, place, 'x'])).toMatchObject({
      code: 2,
      err: expect.stringContaining(
        `place "${place}": expected a file, such as src/login.ts, src/login.ts:12`,
      ),
    });
  const refused = await ada.muster(['threads', 'add', agent, '../secret:1', 'x']);
  expect(refused.err).toContain('comments[0].path');
  expect(refused.code).toBe(2);
});
