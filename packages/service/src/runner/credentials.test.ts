import { expect, it } from 'vitest';
import { abilitiesOf } from './credentials.ts';

it('rehearses every model only where there is no provider key at all', () => {
  expect(abilitiesOf({})).toEqual({ backends: ['BACKEND_A', 'BACKEND_B'], rehearses: true });
  expect(abilitiesOf({ OPENAI_API_KEY: '' })).toMatchObject({ rehearses: true });
  expect(abilitiesOf({ OPENAI_API_KEY: 'sk-x' })).toEqual({ backends: [], rehearses: false });
  expect(abilitiesOf({ ANTHROPIC_API_KEY: 'sk-x' })).toMatchObject({ rehearses: false });
});
