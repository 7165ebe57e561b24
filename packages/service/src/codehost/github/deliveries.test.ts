import { createHmac } from 'node:crypto';
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import type { Headers } from '../../work/host-error.ts';
import { githubDeliveries } from './deliveries.ts';

type Body = Readonly<Record<string, unknown>>;

/** Bodies that GitHub sent, of every type. */
const types = createRequire(import.meta.url)('@octokit/webhooks-examples') as {
  name: string;
  examples: Body[];
}[];

const read = (event: string, body: Body) => githubDeliveries.read({ 'x-github-event': event }, body);

const example = (event: string, action: string, isWanted: (body: Body) => boolean = () => true): Body => {
  const examples = types.find(({ name }) => name === event)?.examples ?? [];
  const found = examples.find((body) => (body.action ?? '') === action && isWanted(body));
  if (!found) throw new Error(`example of ${event}.${action} not found`);
  return found;
};

describe('the deliveries of all types', () => {
  it('are read', () => {
    expect(types).toHaveLength(58);
    const acted = new Set<string>();
    for (const { name, examples } of types) {
      for (const body of examples) {
        const { events, event, subject } = read(name, body);
        expect(event).toBe(body.action ? `${name}.${body.action}` : name);
        expect(events.length, name).toBeGreaterThan(0);
        for (const found of events) {
          if (found.type === 'ignored') expect(found.reason, name).toMatch(/^\S.{10,}/);
          else {
            acted.add(name);
            expect(subject, name).toMatch(/^[\w-]+\/[\w-]+(#\d+|@[0-9a-f]{10})$/);
          }
        }
      }
    }
    // No comment among them mentions anybody or is on a pull request.
    expect([...acted].sort()).toEqual([
      'check_run',
      'check_suite',
      'issues',
      'pull_request',
      'pull_request_review',
      'pull_request_review_comment',
      'pull_request_review_thread',
      'push',
      'status',
      'workflow_run',
    ]);
  });

  it('that GitHub may add later are ignored', () => {
    expect(read('constructor', { action: 'made' })).toMatchObject({
      event: 'constructor.made',
      sender: null,
      events: [{ type: 'ignored' }],
    });
  });
});

describe('a delivery', () => {
  it('about a pull request names it', () => {
    for (const [event, action] of [
      ['pull_request', 'synchronize'],
      ['pull_request_review', 'submitted'],
      ['pull_request_review_thread', 'resolved'],
    ] as const) {
      const body = example(event, action);
      const { number } = body.pull_request as { number: number };
      const { full_name: repo } = body.repository as { full_name: string };
      expect(read(event, body).events).toContainEqual({ type: 'change-request', repo, number });
    }
  });

  it('about a comment has its id and who wrote it', () => {
    const body = example('pull_request_review_comment', 'created');
    const { id } = body.comment as { id: number };
    const sender = body.sender as { id: number; login: string };
    expect(read('pull_request_review_comment', body)).toMatchObject({
      commentIds: [`discussion_r${id}`],
      sender: { id: String(sender.id), login: sender.login },
    });
  });

  it('about a label asks for an agent with the text as it was', () => {
    const body = example('issues', 'labeled', ({ label }) => label !== undefined);
    const issue = body.issue as { number: number; title: string; body: string; html_url: string };
    expect(read('issues', body).events).toEqual([
      {
        type: 'trigger',
        causes: [{ by: 'label', value: (body.label as { name: string }).name }],
        repo: (body.repository as { full_name: string }).full_name,
        subject: { type: 'issue', number: issue.number },
        updatedAt: (body.issue as { updated_at: string }).updated_at,
        ...{ title: issue.title, body: issue.body ?? '', url: issue.html_url, comment: null },
        author: expect.objectContaining({ login: expect.any(String) }),
      },
    ]);
  });

  it('about an assignment names the account', () => {
    const body = example('issues', 'assigned', ({ assignee }) => Boolean(assignee));
    const { login } = body.assignee as { login: string };
    expect(read('issues', body).events).toMatchObject([
      { type: 'trigger', causes: [{ by: 'assigned', value: login }] },
    ]);
  });

  it('about a comment that mentions somebody has the comment', () => {
    const body = example('issue_comment', 'created', ({ issue }) => !(issue as Body).pull_request);
    const comment = { ...(body.comment as Body), body: 'Hello @muster, please.' };
    const { events } = read('issue_comment', { ...body, comment });
    expect(events).toMatchObject([
      {
        type: 'trigger',
        causes: [{ by: 'mention', value: '' }],
        subject: { type: 'issue' },
        comment: { body: 'Hello @muster, please.' },
      },
    ]);
    const edited = read('issue_comment', { ...body, comment, action: 'edited' });
    expect(edited.events).toMatchObject([{ type: 'ignored' }]);
  });

  it('about a comment on a pull request names it, and the mention', () => {
    const body = example('issue_comment', 'created', ({ issue }) => !(issue as Body).pull_request);
    const issue = { ...(body.issue as Body), pull_request: { url: 'https://example.com' } };
    const comment = { ...(body.comment as Body), body: 'No mention.' };
    expect(read('issue_comment', { ...body, issue, comment }).events).toMatchObject([
      { type: 'change-request' },
    ]);
  });

  it('about checks names the commit', () => {
    const body = example('check_run', 'completed');
    const { head_sha: sha } = body.check_run as { head_sha: string };
    expect(read('check_run', body).events).toMatchObject([{ type: 'checks', sha }]);
    expect(read('status', example('status', '')).events).toMatchObject([
      { type: 'checks', sha: example('status', '').sha },
    ]);
  });

  it('that is not as documented is refused with the name of the field', () => {
    expect(() => read('pull_request', {})).toThrow(
      new TypeError('pull_request must be an object; got undefined'),
    );
    expect(() => read('status', { sha: 7, repository: { full_name: 'a/b' } })).toThrow(TypeError);
    expect(() => read('issues', { action: ['opened'] })).toThrow(/action must be a text; got a list/);
  });

  it('is identified by its header, or by a digest of it', () => {
    const headers = { 'x-github-event': 'push', 'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958' };
    expect(githubDeliveries.identify(headers, 'digest')).toEqual({
      id: '72d3162e-cc78-11e3-81ab-4c9367dc0958',
      event: 'push',
    });
    expect(githubDeliveries.identify({}, 'digest')).toEqual({ id: 'digest', event: '' });
    expect(githubDeliveries.identify({ 'x-github-delivery': 'x'.repeat(5000) }, 'digest').id).toBe('digest');
  });
});

describe('the signature', () => {
  // The example of GitHub's documentation.
  const secret = "It's a Secret to Everybody";
  const body = 'Hello, World!';
  const right = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17';

  const isValid = (headers: Headers, secrets: readonly string[], chunks = [body]): boolean | null => {
    const check = githubDeliveries.signature(headers, secrets);
    for (const chunk of chunks) check?.update(Buffer.from(chunk));
    return check?.isValid() ?? null;
  };

  it('is that of the raw body, in any number of chunks', () => {
    expect(isValid({ 'x-hub-signature-256': right }, [secret])).toBe(true);
    expect(isValid({ 'x-hub-signature-256': right }, [secret], ['Hello', ', ', 'World!'])).toBe(true);
    expect(
      isValid({ 'x-hub-signature-256': right.replace(/[a-f]/g, (c) => c.toUpperCase()) }, [secret]),
    ).toBe(true);
  });

  it('may be made with any of the secrets while they are rotated', () => {
    expect(isValid({ 'x-hub-signature-256': right }, ['new', secret])).toBe(true);
    expect(isValid({ 'x-hub-signature-256': right }, ['new', 'other'])).toBe(false);
  });

  it('is wrong for another body or secret', () => {
    expect(isValid({ 'x-hub-signature-256': right }, [secret], ['Hello, World?'])).toBe(false);
    expect(isValid({ 'x-hub-signature-256': right }, ['another secret'])).toBe(false);
  });

  it('has to be there, complete, and SHA-256', () => {
    const sha1 = createHmac('sha1', secret).update(body).digest('hex');
    for (const headers of [
      {},
      { 'x-hub-signature-256': '' },
      { 'x-hub-signature-256': 'sha256=' },
      { 'x-hub-signature-256': right.slice(0, -2) },
      { 'x-hub-signature-256': right.slice('sha256='.length) },
      { 'x-hub-signature-256': `sha1=${sha1}` },
      { 'x-hub-signature': `sha1=${sha1}` },
    ])
      expect(isValid(headers, [secret])).toBe(null);
  });

  it('needs a secret', () => {
    const unsigned = createHmac('sha256', '').update(body).digest('hex');
    expect(isValid({ 'x-hub-signature-256': `sha256=${unsigned}` }, [''])).toBe(null);
    expect(isValid({ 'x-hub-signature-256': right }, [])).toBe(null);
  });
});
