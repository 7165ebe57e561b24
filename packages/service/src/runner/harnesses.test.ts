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

it('uses the provider URLs of the environment, else the defaults', () => {
  expect(abilitiesOf({ ANTHROPIC_API_KEY: 'a', OPENAI_API_KEY: 'o' }).providers).toEqual({
    anthropic: { url: 'https://api.anthropic.com', apiKey: 'a' },
    openai: { url: 'https://api.openai.com/v1', apiKey: 'o' },
  });
  expect(abilitiesOf({ OPENAI_API_KEY: 'o', OPENAI_BASE_URL: 'http://proxy/v1' }).providers).toEqual({
    openai: { url: 'http://proxy/v1', apiKey: 'o' },
  });
});
