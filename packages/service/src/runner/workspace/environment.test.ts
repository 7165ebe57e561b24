import type { EnvironmentDocument } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { readTenantAllow, TenantRights } from '../tenant-allow.ts';
import { environmentOf } from './environment.ts';

const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' } as const;
const first = new TenantRights(new Map(), tenant, true);

const runner = { NPM_TOKEN: 'npm-secret', ANTHROPIC_API_KEY: 'sk', PGPASSWORD: 'pg' };
const secrets = [
  { name: 'npm', value: 'npm-value', problem: '' },
  { name: 'gone', value: '', problem: 'secret "gone" not found; set it: muster secret set gone' },
];
const of = (variables: EnvironmentDocument['variables'], rights = first) =>
  environmentOf({ variables }, { runner, rights, secrets }).variables;

describe("the environment's variables", () => {
  it('are given as written, or taken from the runner', () => {
    expect(of(undefined)).toEqual({});
    expect(of({ CI: '1', TOKEN: { fromRunner: 'NPM_TOKEN' } })).toEqual({ CI: '1', TOKEN: 'npm-secret' });
  });

  it('come from the runner for other tenants only if its operator lists them', () => {
    const allow = readTenantAllow('{"codehost_app/acme": {"fromRunner": ["NPM_TOKEN"]}}');
    const variables = { X: { fromRunner: 'NPM_TOKEN' } };
    expect(of(variables, new TenantRights(allow, tenant, false))).toEqual({ X: 'npm-secret' });
    const other = { ...tenant, org: 'other' };
    for (const rights of [
      new TenantRights(allow, other, false),
      new TenantRights(new Map(), tenant, false),
    ]) {
      expect(() => of(variables, rights)).toThrow(
        /variables\.X: this tenant may not use the runner's variable NPM_TOKEN; .*MUSTER_TENANT_ALLOW/,
      );
    }
    expect(of({ X: 'plain' }, new TenantRights(new Map(), tenant, false))).toEqual({ X: 'plain' });
  });

  it('come from secrets of the tenant', () => {
    expect(of({ TOKEN: { fromSecret: 'npm' } }, new TenantRights(new Map(), tenant, false))).toEqual({
      TOKEN: 'npm-value',
    });
    expect(() => of({ TOKEN: { fromSecret: 'gone' } })).toThrow(
      'variables.TOKEN: secret "gone" not found; set it: muster secret set gone',
    );
    expect(() => of({ TOKEN: { fromSecret: 'unsent' } })).toThrow(
      'variables.TOKEN: the service sent no secret "unsent"',
    );
    const both = { fromSecret: 'npm', fromRunner: 'NPM_TOKEN' };
    expect(() => of({ TOKEN: both })).toThrow('variables.TOKEN: expected fromSecret or fromRunner, got both');
  });

  it('are secret if they come from a secret or from the runner', () => {
    const variables = {
      CI: 'plain-value',
      A: { fromSecret: 'npm' },
      B: { fromRunner: 'NPM_TOKEN' },
      C: { fromSecret: 'npm' },
    };
    const sources = { runner, rights: first, secrets };
    expect(environmentOf({ variables }, sources).secretValues).toEqual(['npm-value', 'npm-secret']);
  });

  it('must be set on the runner if they come from there', () => {
    expect(() => of({ X: { fromRunner: 'NOT_SET' } })).toThrow(
      'variables.X: the runner has no variable NOT_SET',
    );
  });

  it.each([['ANTHROPIC_API_KEY'], ['PGPASSWORD'], ['DATABASE_URL'], ['MUSTER_KEY'], ['OPENAI_API_KEY']])(
    "never include the runner's own %s",
    (name) => {
      expect(() => of({ X: { fromRunner: name } })).toThrow(`variables.X: ${name} belongs to the runner`);
    },
  );

  it("never include a cloud's credentials while the runner gets models there", () => {
    const cloud = { AWS_SECRET_ACCESS_KEY: 'a-value', GOOGLE_API_KEY: 'b-value' };
    const from = (runnersOwn: object) =>
      environmentOf(
        { variables: { X: { fromRunner: 'AWS_SECRET_ACCESS_KEY' }, Y: { fromRunner: 'GOOGLE_API_KEY' } } },
        { runner: { ...cloud, ...runnersOwn }, rights: first, secrets },
      );
    expect(from({}).variables).toEqual({ X: 'a-value', Y: 'b-value' });
    expect(() => from({ CLAUDE_CODE_USE_BEDROCK: '1' })).toThrow(
      'variables.X: AWS_SECRET_ACCESS_KEY belongs',
    );
    expect(() => from({ CLAUDE_CODE_USE_VERTEX: '1' })).toThrow('variables.Y: GOOGLE_API_KEY belongs');
  });

  it.each([
    ['HOME'],
    ['GIT_CONFIG_GLOBAL'],
    ['https_proxy'],
    ['HTTP_PROXY'],
    ['CLAUDE_CONFIG_DIR'],
    ['CODEX_HOME'],
  ])('do not replace %s', (name) => {
    expect(() => of({ [name]: 'x' })).toThrow(`variables.${name}: Muster sets this variable itself`);
  });

  it.each([['1X'], ['A-B'], ['A=B'], ['']])('are not named %j', (name) => {
    expect(() => of({ [name]: 'x' })).toThrow('expected a name of letters');
  });
});
