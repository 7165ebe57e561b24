import { describe, expect, it } from 'vitest';
import { environmentOf } from './environment.ts';

const of = (variables: Record<string, unknown>) =>
  environmentOf({ variables }, { NPM_TOKEN: 'npm-secret', ANTHROPIC_API_KEY: 'sk', PGPASSWORD: 'pg' });

describe("the environment's variables", () => {
  it('are given as written, or taken from the runner', () => {
    expect(environmentOf({}, {})).toEqual({});
    expect(of({ CI: '1', TOKEN: { fromRunner: 'NPM_TOKEN' } })).toEqual({ CI: '1', TOKEN: 'npm-secret' });
  });

  it('must be set on the runner when they come from there', () => {
    expect(() => of({ X: { fromRunner: 'NOT_SET' } })).toThrow(
      'variables.X: the runner has no variable NOT_SET',
    );
  });

  it.each([['ANTHROPIC_API_KEY'], ['PGPASSWORD'], ['DATABASE_URL'], ['MUSTER_KEY'], ['OPENAI_API_KEY']])(
    "never include the runner's own %s",
    (name) => {
      expect(() => of({ X: { fromRunner: name } })).toThrow(`variables.X: ${name} is the runner's own`);
    },
  );

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
    expect(() => of({ [name]: 'x' })).toThrow('a name has letters');
  });
});
