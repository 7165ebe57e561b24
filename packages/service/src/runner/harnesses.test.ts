import { expect, it } from 'vitest';
import { abilitiesOf } from './harnesses.ts';

const of = (environment: Record<string, string>) => {
  const { harnesses, rehearses } = abilitiesOf(environment);
  return { backends: Object.keys(harnesses), rehearses };
};

it('rehearses every model only without any provider key', () => {
  expect(of({})).toEqual({ backends: [], rehearses: true });
  expect(of({ OPENAI_API_KEY: '' })).toEqual({ backends: [], rehearses: true });
  expect(of({ OPENAI_API_KEY: 'sk-x' })).toEqual({ backends: ['BACKEND_B'], rehearses: false });
  expect(of({ ANTHROPIC_API_KEY: 'sk-x' })).toEqual({ backends: ['BACKEND_A'], rehearses: false });
});

it('says which account each backend uses, and never a value', () => {
  const accounts = {
    ...{ ANTHROPIC_API_KEY: 'sk-a', CLAUDE_CODE_USE_BEDROCK: '1', AWS_REGION: 'us-east-1' },
    ...{ OPENAI_API_KEY: 'sk-o' },
  };
  expect(abilitiesOf(accounts).summary).toEqual([
    'Claude Code: ready with Amazon Bedrock (AWS credentials, us-east-1); also ANTHROPIC_API_KEY',
    'Codex: ready with OPENAI_API_KEY',
  ]);
});
