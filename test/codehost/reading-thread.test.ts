import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { ReadingThread } from '../../packages/service/src/codehost/reading-thread.ts';
import { hasMarker, withMarker } from '../../packages/service/src/work/markers.ts';

const thread = new ReadingThread();
afterAll(() => thread.end());

const marker = '0e8a3c52-6f0b-4f27-9f4e-0a1b2c3d4e5f';
const long = 'x'.repeat(1024 * 1024);

const read = (type: 'gitlab' | 'forgejo', headers: Record<string, string>, body: unknown) =>
  thread.read(async () => ({ delivery: { type, headers, body: gzipSync(JSON.stringify(body)) } }));

const labels = Array.from({ length: 2_000 }, (_, i) => ({ title: `label-${i}`, name: `label-${i}` }));
const user = { id: 5, username: 'somebody', login: 'somebody' };

describe('a delivery with a text of 1 MiB and 2,000 labels', () => {
  it.each([
    [
      'gitlab' as const,
      {},
      {
        ...{ object_kind: 'issue', user, labels, project: { path_with_namespace: 'team/project' } },
        object_attributes: {
          action: 'open',
          iid: 3,
          title: long,
          description: long,
          author_id: 5,
          url: long,
        },
      },
    ],
    [
      'forgejo' as const,
      { 'x-forgejo-event': 'issues' },
      {
        ...{ action: 'label_updated', sender: user, repository: { full_name: 'team/project' } },
        issue: { number: 3, title: long, body: long, user, html_url: long, labels },
      },
    ],
  ])('of %s is one event, and a small part of it leaves the thread', async (type, headers, body) => {
    const answer = await read(type, headers, body);
    expect(answer).toMatchObject({ type: 'delivery', delivery: { events: [{ type: 'trigger' }] } });
    expect(JSON.stringify(answer).length).toBeLessThan(256 * 1024);
  });
});

describe('a reply of a host', () => {
  const parse = (value: unknown) => thread.parseReply(Buffer.from(JSON.stringify(value)));

  it.each(['small', 'large'])(
    'that is %s has its texts cut, and keeps the marker at their end',
    async (size) => {
      const body = withMarker(size === 'small' ? 'x'.repeat(65_000) : long, marker);
      const json = await parse({ body });
      const { body: cut } = json.value as { body: string };
      expect(cut.length).toBeLessThan(70_000);
      expect(hasMarker(cut, marker)).toBe(true);
      expect(json).toMatchObject({ values: 2, characters: cut.length + 4 });
    },
  );

  it.each([
    ['values', Array.from({ length: 150_000 }, () => ({}))],
    ['characters', Array.from({ length: 200 }, () => 'x'.repeat(60_000))],
    ['depth', JSON.parse(`${'['.repeat(100)}${']'.repeat(100)}`)],
  ])('is refused if it has too many %s', async (bound, value) => {
    await expect(parse(value)).rejects.toThrow(new RegExp(`more ${bound} than`));
  });

  it('that has more than is kept of one is refused before it is parsed', async () => {
    const noJson = Buffer.from(`[${'{},'.repeat(150_000)}`);
    await expect(thread.parseReply(noJson)).rejects.toThrow('more values than');
  });

  it('that is refused does not keep the next one from being read', async () => {
    await expect(thread.parseReply(Buffer.from('{'.repeat(100_000)))).rejects.toThrow(TypeError);
    expect((await parse([long])).values).toBe(2);
  });
});
