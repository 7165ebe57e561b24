import type { DocumentWarning } from '@muster/sdk/contract';
import { limits } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import {
  apiWithNewKey,
  type Document,
  decode,
  encode,
  readResource,
  uniqueName,
} from '../support/catalog.ts';
import { replySchemaProblem } from '../support/contract-schemas.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';

const { api } = await useSharedServer({ runner: false });

interface Reply {
  readonly payload: string;
  readonly generation: string;
  readonly warnings: DocumentWarning[];
}

const post = (kind: string, name: string, document: unknown, more: Document = {}) =>
  api.post<Reply>(`/v1/catalog/${kind}/${name}`, { payload: encode(document), ...more });

const warningsOf = async (kind: string, document: unknown, more: Document = {}) =>
  expectOk(await post(kind, uniqueName('warned'), document, more)).warnings;

describe('the warnings of a write', () => {
  test('name a misspelt field and the nearest known one; the field is stored', async () => {
    const name = uniqueName('misspelt');
    const { warnings, payload } = expectOk(await post('workspace', name, { repo: 'https://a.example/b' }));
    expect(warnings).toEqual([
      { field: 'payload.repo', description: 'is not a known field; did you mean "repos"?', missing: '' },
    ]);
    expect(decode(payload)).toMatchObject({ repo: 'https://a.example/b' });
  });

  test.each([
    ['a relative repository', 'workspace', { repos: ['./code'] }, 'payload.repos[0].url', /^must be https:/],
    [
      'a repository inside another',
      'workspace',
      { repos: ['https://a.example/b', { url: 'https://a.example/c', path: 'b/c' }] },
      'payload.repos[1].path',
      /is inside the path of repos\[0\]/,
    ],
    [
      'a URL as a host',
      'environment',
      { allowHosts: ['ok.example', 'https://api.example'] },
      'payload.allowHosts[1]',
      /^"https:\/\/api\.example" matches no host; expected name, \*\.name or name:port/,
    ],
  ])('report %s', async (_, kind, document, field, description) => {
    expect(await warningsOf(kind, document)).toEqual([
      { field, description: expect.stringMatching(description), missing: '' },
    ]);
  });

  test('report names that do not exist, with the nearest that does', async () => {
    expect(await warningsOf('workspace', { environment: 'defualt', pool: 'default' })).toEqual([
      {
        field: 'payload.environment',
        description: 'names the environment "defualt", which does not exist; did you mean "default"?',
        missing: 'environment/defualt',
      },
    ]);
    const name = uniqueName('there');
    expectOk(await post('secret', name, { value: 'x' }));
    const variables = { A: { fromSecret: name }, B: { fromSecret: `${name}x` } };
    expect(await warningsOf('environment', { variables })).toMatchObject([
      { field: 'payload.variables.B.fromSecret', missing: `secret/${name}x` },
    ]);
    expect(await warningsOf('integration', { type: 'github', workspace: name })).toMatchObject([
      { field: 'payload.workspace', missing: `workspace/${name}` },
    ]);
  });

  test('are about the whole document under a mask', async () => {
    const name = uniqueName('masked');
    expectOk(await post('profile', name, { displayname: 'x' }));
    const reply = expectOk(await post('profile', name, { displayName: 'y' }, { updateMask: 'displayName' }));
    expect(reply.warnings).toMatchObject([{ field: 'payload.displayname' }]);
  });

  test('are few and short, whatever the document has', async () => {
    const variables = Object.fromEntries(
      Array.from({ length: 8_000 }, (_, at) => [`V${at}`, { fromSecret: `none-${at}` }]),
    );
    const hosts = Array.from({ length: 20_000 }, (_, at) => `https://${at}`);
    const unknown = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`y${at}`, 1]));
    for (const document of [{ variables }, { allowHosts: hosts }, unknown, { ['y'.repeat(300_000)]: 1 }]) {
      const warnings = await warningsOf('environment', document);
      expect(warnings.length).toBeGreaterThan(0);
      expect(warnings.length).toBeLessThanOrEqual(limits.documentWarnings);
      expect(JSON.stringify(warnings).length).toBeLessThan(20_000);
    }
  });
});

describe('validate', () => {
  const validate = (kind: string, name: string, document: unknown, more: Document = {}, by = api) =>
    by.post<Reply>(`/v1/catalog/${kind}/${name}/validate`, { payload: encode(document), ...more });

  test('answers what a write would, and writes nothing', async () => {
    const name = uniqueName('tried');
    const reply = expectOk(await validate('pool', name, { maxRuns: 3, maxRun: 4 }));
    expect(replySchemaProblem('validateResource', reply)).toBeUndefined();
    expect(reply).toMatchObject({ generation: '1', warnings: [{ field: 'payload.maxRun' }] });
    expect(decode(reply.payload)).toMatchObject({ name, maxRuns: 3 });
    expectError(await readResource(api, 'pool', name), 'NOT_FOUND');
    expectOk(await post('pool', name, { maxRuns: 1 }));
    expect(expectOk(await validate('pool', name, { maxRuns: 3 })).generation).toBe('2');
    expect(decode(expectOk(await readResource(api, 'pool', name)).payload)).toMatchObject({ maxRuns: 1 });
    expect(expectOk(await api.get<{ entries: [] }>(`/v1/catalog/pool/${name}/history`)).entries).toHaveLength(
      1,
    );
  });

  test('makes no key and reveals none', async () => {
    for (const kind of ['token', 'share-link', 'integration', 'trigger', 'notification']) {
      const { payload } = expectOk(await validate(kind, uniqueName('tried'), {}));
      for (const field of ['key', 'keyId', 'url', 'signingKey', 'webhookUrl', 'secret', 'signingSecret'])
        expect(decode(payload)).not.toHaveProperty(field);
    }
  });

  test('refuses what a write refuses', async () => {
    const name = uniqueName('tried');
    expectError(await validate('pool', name, { maxRuns: 'many' }), 'INVALID_ARGUMENT');
    expectError(await validate('pool', name, {}, { ifGenerationMatch: 7 }), 'FAILED_PRECONDITION');
    expectError(await validate('change-request', name, {}), 'FAILED_PRECONDITION');
    const member = await apiWithNewKey(api, { role: 'member' });
    expectError(await validate('pool', name, {}, {}, member), 'PERMISSION_DENIED');
  });
});
