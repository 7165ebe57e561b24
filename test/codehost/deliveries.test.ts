import { createHmac, hash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it, test } from 'vitest';
import { forgejoDeliveries } from '../../packages/service/src/codehost/forgejo/deliveries.ts';
import { gitlabDeliveries } from '../../packages/service/src/codehost/gitlab/deliveries.ts';
import type { DeliveryReader, HostEvent } from '../../packages/service/src/codehost/host.ts';
import type { Headers } from '../../packages/service/src/work/host-error.ts';

const body = Buffer.from('{"object_kind":"push"}');

function isAccepted(reader: DeliveryReader, headers: Headers, ...secrets: string[]): boolean {
  const check = reader.signature(headers, secrets);
  check?.update(body.subarray(0, 5));
  check?.update(body.subarray(5));
  return check?.isValid() ?? false;
}

describe('a delivery of GitLab', () => {
  const key = randomBytes(32);
  const secret = `whsec_${key.toString('base64')}`;
  const signed = (over: { key?: Buffer; text?: string; at?: number } = {}): Record<string, string> => {
    const timestamp = String(Math.floor((over.at ?? Date.now()) / 1000));
    const signedText = `id-1.${timestamp}.${over.text ?? body.toString()}`;
    const digest = createHmac('sha256', over.key ?? key)
      .update(signedText)
      .digest('base64');
    return { 'webhook-id': 'id-1', 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${digest}` };
  };

  it('is accepted with the right signature, by any of several keys', () => {
    expect(isAccepted(gitlabDeliveries, signed(), secret)).toBe(true);
    const other = `whsec_${randomBytes(32).toString('base64')}`;
    expect(isAccepted(gitlabDeliveries, signed(), other, secret)).toBe(true);
    const two = { ...signed(), 'webhook-signature': `v1,AAAA v1a,BBBB ${signed()['webhook-signature']}` };
    expect(isAccepted(gitlabDeliveries, two, secret)).toBe(true);
  });

  it('is refused with a wrong, empty or old signature, or that of another body or id', () => {
    expect(isAccepted(gitlabDeliveries, signed({ key: randomBytes(32) }), secret)).toBe(false);
    expect(isAccepted(gitlabDeliveries, signed({ text: '{}' }), secret)).toBe(false);
    expect(isAccepted(gitlabDeliveries, { ...signed(), 'webhook-id': 'id-2' }, secret)).toBe(false);
    for (const minutes of [-6, 6])
      expect(isAccepted(gitlabDeliveries, signed({ at: Date.now() + minutes * 60_000 }), secret)).toBe(false);
    for (const value of ['', 'v1,', 'v1', 'v2,AAAA', 'v1,AAAA'])
      expect(isAccepted(gitlabDeliveries, { ...signed(), 'webhook-signature': value }, secret)).toBe(false);
    for (const missing of ['webhook-id', 'webhook-timestamp'])
      expect(isAccepted(gitlabDeliveries, { ...signed(), [missing]: undefined }, secret)).toBe(false);
    expect(isAccepted(gitlabDeliveries, signed(), 'whsec_', '')).toBe(false);
  });

  it('is accepted with the right token, by any of several secrets', () => {
    expect(isAccepted(gitlabDeliveries, { 'x-gitlab-token': 'right' }, 'wrong', 'right')).toBe(true);
  });

  it('is refused with a wrong, empty or missing token, or with the signing token itself', () => {
    for (const token of ['wrong', 'righ', 'right ', ''])
      expect(isAccepted(gitlabDeliveries, { 'x-gitlab-token': token }, 'right', '')).toBe(false);
    expect(isAccepted(gitlabDeliveries, {}, 'right')).toBe(false);
    expect(isAccepted(gitlabDeliveries, { 'x-gitlab-token': secret }, secret)).toBe(false);
  });

  it('that has a signature is never accepted for its token', () => {
    const token = { 'x-gitlab-token': 'right' };
    const wrong = { ...signed({ key: randomBytes(32) }), ...token };
    expect(isAccepted(gitlabDeliveries, wrong, secret, 'right')).toBe(false);
    expect(isAccepted(gitlabDeliveries, { 'webhook-signature': '', ...token }, 'right')).toBe(false);
    expect(isAccepted(gitlabDeliveries, { ...signed(), ...token }, secret, 'right')).toBe(true);
  });

  it('is identified by its id, else by its key, else by its event and body', () => {
    const event = { 'x-gitlab-event': 'Push Hook' };
    const idOf = (headers: Headers) => gitlabDeliveries.identify({ ...event, ...headers }, 'digest').id;
    expect(idOf({ 'webhook-id': 'a', 'idempotency-key': 'b' })).toBe('a');
    expect(idOf({ 'idempotency-key': 'b' })).toBe('b');
    expect(idOf({})).toBe(hash('sha256', 'Push Hook\ndigest'));
    expect(idOf({ 'webhook-id': 'x'.repeat(101) })).toBe(idOf({}));
    expect(idOf({ 'x-gitlab-event': 'Tag Push Hook' })).not.toBe(idOf({}));
  });
});

describe('a delivery of Forgejo or Gitea', () => {
  const digest = (secret: string): string => createHmac('sha256', secret).update(body).digest('hex');

  it.each(['x-gitea-signature', 'x-forgejo-signature'])('is accepted with the right %s', (name) => {
    expect(isAccepted(forgejoDeliveries, { [name]: digest('s') }, 'other', 's')).toBe(true);
    expect(isAccepted(forgejoDeliveries, { [name]: digest('s').toUpperCase() }, 's')).toBe(true);
    for (const wrong of [digest('other'), '', `sha256=${digest('s')}`, digest('s').slice(2), 'zz'.repeat(32)])
      expect(isAccepted(forgejoDeliveries, { [name]: wrong }, 's')).toBe(false);
  });

  it('is refused without a secret, or with a signature for GitHub only', () => {
    expect(isAccepted(forgejoDeliveries, { 'x-gitea-signature': digest('') }, '')).toBe(false);
    expect(isAccepted(forgejoDeliveries, { 'x-hub-signature-256': `sha256=${digest('s')}` }, 's')).toBe(
      false,
    );
    const both = { 'x-forgejo-signature': '', 'x-gitea-signature': digest('s') };
    expect(isAccepted(forgejoDeliveries, both, 's')).toBe(false);
  });

  it('is identified by its id', () => {
    const headers = { 'x-gitea-delivery': 'a-1', 'x-gitea-event': 'push' };
    expect(forgejoDeliveries.identify(headers, 'digest')).toEqual({ id: 'a-1', event: 'push' });
    expect(forgejoDeliveries.identify({}, 'digest')).toEqual({ id: 'digest', event: '' });
  });
});

interface Fixture {
  readonly name: string;
  readonly event: string;
  readonly body: Readonly<Record<string, unknown>>;
}

const fixtures = (host: string): readonly Fixture[] =>
  JSON.parse(readFileSync(new URL(`fixtures/${host}-deliveries.json`, import.meta.url), 'utf8'));

/** What is done about a delivery, in a few words. */
const summary = (events: readonly HostEvent[]): string =>
  events
    .map((event) => {
      if (event.type === 'ignored') return 'ignored';
      if (event.type === 'checks') return 'checks';
      if (event.type === 'branch') return `${event.repo} at ${event.branch}`;
      if (event.type === 'change-request') return `${event.repo} !${event.number}`;
      const { type, number } = event.subject;
      return event.causes.map(({ by, value }) => `${by} ${value} on ${type} ${number}`).join(', ');
    })
    .join(', ');

describe('real deliveries', () => {
  test('of GitLab are used, or ignored for a reason', () => {
    const read = fixtures('gitlab').map(({ name, event, body: content }) => {
      const found = gitlabDeliveries.read({ 'x-gitlab-event': event }, content);
      return [name, found.event, summary(found.events), found.sender?.login ?? '', found.commentIds.join()];
    });
    expect(read).toEqual([
      ['comment-commit', 'note', 'ignored', 'root', '1243'],
      ['comment-issue', 'note', 'ignored', 'root', '1241'],
      ['comment-merge-request', 'note', 'team/project !1', 'root', '1244'],
      ['comment-snippet', 'note', 'ignored', 'root', '1245'],
      ['confidential-comment', 'note', 'ignored', 'root', '1241'],
      ['confidential-issue', 'issue.open', 'ignored', '', ''],
      ['issue', 'issue.open', 'assigned user1 on issue 23', '', ''],
      [
        'merge-request',
        'merge_request.open',
        'team/project !1, label API on change-request 1, assigned user1 on change-request 1',
        'root',
        '',
      ],
      ['push', 'push', 'team/project at master', '', ''],
      ['release', 'release.create', 'ignored', '', ''],
      ['tag', 'tag_push', 'ignored', '', ''],
      ['wikipage', 'wiki_page.create', 'ignored', '', ''],
    ]);
  });

  test('of Gitea are used, or ignored for a reason', () => {
    const read = fixtures('gitea').map(({ name, event, body: content }) => {
      const found = forgejoDeliveries.read({ 'x-gitea-event': event }, content);
      return [name, found.event, summary(found.events), found.commentIds.join()];
    });
    expect(read).toEqual([
      ['create', 'create', 'ignored', ''],
      ['delete', 'delete', 'ignored', ''],
      ['fork', 'fork', 'ignored', ''],
      ['issue-assign', 'issues.assigned', 'assigned example on issue 1', ''],
      ['issue-comment', 'issue_comment.created', 'ignored', '2'],
      ['issue-label', 'issues.label_updated', 'label bug on issue 1', ''],
      ['issue-milestone', 'issues.milestoned', 'ignored', ''],
      ['issues', 'issues.opened', 'ignored', ''],
      [
        'pull-request-assign',
        'pull_request.assigned',
        'team/project !2, assigned example on change-request 2',
        '',
      ],
      ['pull-request-comment', 'issue_comment.created', 'team/project !2', '6'],
      ['pull-request', 'pull_request.opened', 'team/project !2', ''],
      [
        'pull-request-label',
        'pull_request.label_updated',
        'team/project !2, label bug on change-request 2',
        '',
      ],
      ['pull-request-milestone', 'pull_request.milestoned', 'team/project !2', ''],
      ['pull-request-review', 'pull_request_comment.reviewed', 'team/project !2', ''],
      ['push', 'push', 'team/project at master', ''],
      ['release', 'release.published', 'ignored', ''],
      ['repository', 'repository.created', 'ignored', ''],
    ]);
  });

  test('say why they are ignored', () => {
    const all = [
      ...fixtures('gitlab').map(({ event, body: content }) =>
        gitlabDeliveries.read({ 'x-gitlab-event': event }, content),
      ),
      ...fixtures('gitea').map(({ event, body: content }) =>
        forgejoDeliveries.read({ 'x-gitea-event': event }, content),
      ),
    ];
    for (const event of all.flatMap(({ events }) => events))
      if (event.type === 'ignored') expect(event.reason).toMatch(/\w+ \w+/);
  });

  test.each([
    ['gitlab', gitlabDeliveries, 'x-gitlab-event'],
    ['gitea', forgejoDeliveries, 'x-gitea-event'],
  ] as const)(
    'of %s without a part are read, or refused with a TypeError that names it',
    (host, reader, header) => {
      for (const { event, body: content } of fixtures(host)) {
        for (const [place, broken] of withoutEachPart(content)) {
          try {
            reader.read({ [header]: event }, broken as Record<string, unknown>);
          } catch (error) {
            expect(error, `${event} without ${place}`).toBeInstanceOf(TypeError);
            expect((error as Error).message).toMatch(/must be/);
          }
        }
      }
    },
  );
});

/** A value once without each of its parts, and once with something else in its place. */
function* withoutEachPart(value: unknown, place = ''): Generator<readonly [place: string, broken: unknown]> {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, part] of Object.entries(value)) {
    const at = place ? `${place}.${key}` : key;
    for (const other of [undefined, null, 'x', -1, [], {}, [null], true])
      yield [at, { ...value, [key]: other }];
    for (const [inner, broken] of withoutEachPart(part, at)) {
      const copy = Array.isArray(part) ? Object.values(broken as object) : broken;
      yield [inner, { ...value, [key]: copy }];
    }
  }
}

describe('what a delivery asks for', () => {
  const project = { path_with_namespace: 'group/sub/project' };
  const user = { id: 5, username: 'somebody' };
  const read = (content: Record<string, unknown>) =>
    gitlabDeliveries.read({}, { project, user, ...content }).events;
  const issue = { iid: 3, title: 'A bug', description: 'It fails.', author_id: 5, url: 'https://x/3' };

  it('is an agent for a label that was added, not for one that was there', () => {
    const labels = { previous: [{ title: 'bug' }], current: [{ title: 'bug' }, { title: 'agent' }] };
    const update = {
      object_kind: 'issue',
      object_attributes: { ...issue, action: 'update' },
      changes: { labels },
    };
    expect(read({ ...update, labels: labels.current })).toEqual([
      {
        ...{ type: 'trigger', repo: 'group/sub/project', subject: { type: 'issue', number: 3 } },
        ...{
          causes: [{ by: 'label', value: 'agent' }],
          title: 'A bug',
          body: 'It fails.',
          url: 'https://x/3',
          updatedAt: '',
          comment: null,
        },
        author: { id: '5', login: 'somebody' },
      },
    ]);
  });

  it('is an agent for a mention in a new comment, with the text of both', () => {
    const note = {
      id: 9,
      note: 'Hey @muster',
      noteable_type: 'Issue',
      author_id: 5,
      url: 'https://x/3#note_9',
    };
    const content = { object_kind: 'note', issue: { ...issue, author_id: 6 } };
    expect(read({ ...content, object_attributes: { ...note, action: 'create' } })).toMatchObject([
      {
        ...{
          causes: [{ by: 'mention', value: '' }],
          body: 'It fails.',
          author: { id: '6', login: '' },
          url: 'https://x/3',
        },
        comment: { id: '9', body: 'Hey @muster', url: 'https://x/3#note_9' },
      },
    ]);
    expect(read({ ...content, object_attributes: { ...note, action: 'update' } })).toMatchObject([
      { type: 'ignored' },
    ]);
    expect(read({ ...content, object_attributes: { ...note, system: true } })).toMatchObject([
      { type: 'ignored' },
    ]);
  });

  it('is a look at the checks of a commit, and at the merge request that a pipeline is for', () => {
    const pipeline = { object_kind: 'pipeline', object_attributes: { sha: 'abc' } };
    const checks = { type: 'checks', repo: 'group/sub/project', sha: 'abc' };
    expect(read(pipeline)).toEqual([checks]);
    expect(read({ ...pipeline, merge_request: { iid: 4 } })).toEqual([
      checks,
      { type: 'change-request', repo: 'group/sub/project', number: 4 },
    ]);
  });

  it('of Forgejo is an agent for the label that was added, where the host says which', () => {
    const content = {
      ...{ action: 'label_updated', repository: { full_name: 'team/project' } },
      issue: {
        ...{
          number: 3,
          title: 'A bug',
          body: '',
          user: { id: 5, login: 'somebody' },
          html_url: 'https://x/3',
        },
        labels: [{ name: 'bug' }, { name: 'agent' }],
      },
    };
    const labels = (more: Record<string, unknown>) =>
      summary(forgejoDeliveries.read({ 'x-forgejo-event': 'issues' }, { ...content, ...more }).events);
    expect(labels({})).toBe('label bug on issue 3, label agent on issue 3');
    expect(labels({ label: { name: 'agent' } })).toBe('label agent on issue 3');
    expect(labels({ changes: { added_labels: [{ name: 'agent' }] } })).toBe('label agent on issue 3');
    expect(labels({ action: 'label_cleared' })).toBe('ignored');
  });
});
