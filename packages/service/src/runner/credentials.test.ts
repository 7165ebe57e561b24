import { expect, it } from 'vitest';
import { abilitiesOf } from './credentials.ts';

const of = (environment: Record<string, string>) => {
  const { harnesses, rehearses } = abilitiesOf(environment);
  return { backends: Object.keys(harnesses), rehearses };
};

it('rehearses every model only where there is no provider key at all', () => {
  expect(of({})).toEqual({ backends: [], rehearses: true });
  expect(of({ OPENAI_API_KEY: '' })).toEqual({ backends: [], rehearses: true });
  expect(of({ OPENAI_API_KEY: 'sk-x' })).toEqual({ backends: ['BACKEND_B'], rehearses: false });
  expect(of({ ANTHROPIC_API_KEY: 'sk-x' })).toEqual({ backends: ['BACKEND_A'], rehearses: false });
});

it('reaches its providers where the environment says, else at home', () => {
  expect(abilitiesOf({ ANTHROPIC_API_KEY: 'a', OPENAI_API_KEY: 'o' }).providers).toEqual({
    anthropic: { url: 'https://api.anthropic.com', apiKey: 'a' },
    openai: { url: 'https://api.openai.com/v1', apiKey: 'o' },
  });
  expect(abilitiesOf({ OPENAI_API_KEY: 'o', OPENAI_BASE_URL: 'http://proxy/v1' }).providers).toEqual({
    openai: { url: 'http://proxy/v1', apiKey: 'o' },
  });
});
