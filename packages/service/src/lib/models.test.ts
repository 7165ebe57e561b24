import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { providerModel, readModels } from './models.ts';

const folder = mkdtempSync(join(tmpdir(), 'muster-models-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const read = (content: unknown) => {
  const file = join(folder, 'models.json');
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return readModels(file);
};

const bedrock = { backend: 'BACKEND_A', name: 'eu.anthropic.claude-opus-4-8-v1:0', provider: 'bedrock' };

describe('the table of models', () => {
  it('says which provider has a model, and by which name', () => {
    const models = read({ 'opus-eu': { ...bedrock, model: 'claude-opus-4-8' }, opus: bedrock });
    expect(providerModel('opus-eu', models, 'anthropic')).toEqual({
      provider: 'bedrock',
      name: bedrock.name,
      pricedAs: 'claude-opus-4-8',
      isOwn: true,
    });
    // A usual name may be an entry too.
    expect(providerModel('opus', models, 'anthropic')).toMatchObject({ provider: 'bedrock' });
    expect(providerModel('haiku', models, 'vertex')).toEqual({ provider: 'vertex', name: 'haiku' });
    expect(providerModel('constructor', models, 'vertex')).toEqual({
      provider: 'vertex',
      name: 'constructor',
    });
  });

  it.each([
    ['no JSON', '{', /^must be a JSON file such as \{"opus-eu"/],
    ['a list', [], /^must be a JSON object such as/],
    ['a strange name', { 'two words': bedrock }, /^"two words": a name must be 1 to 128 letters/],
    [
      'a name of the rehearsal',
      { 'rehearsal-a': bedrock },
      /^"rehearsal-a": the name of the rehearsal agent/,
    ],
    ['a text', { a: 'x' }, /^"a" /],
    ['no backend', { a: { ...bedrock, backend: undefined } }, /^"a"\.backend is required$/],
    ['another backend', { a: { ...bedrock, backend: 'C' } }, /^"a"\.backend .*BACKEND_A/],
    ['an unknown provider', { a: { ...bedrock, provider: 'x' } }, /^"a"\.provider .*bedrock/],
    [
      'a provider of the other backend',
      { a: { ...bedrock, provider: 'azure' } },
      /^"a"\.provider must be one of anthropic, bedrock, vertex for Claude Code; got "azure"$/,
    ],
    [
      'a usual name of the other backend',
      { 'gpt-9': bedrock },
      /^"gpt-9"\.backend must be BACKEND_B \(Codex\), which has models of this name; got "BACKEND_A"$/,
    ],
    [
      'an unknown field',
      { a: { ...bedrock, prize: 1 } },
      /^"a": unknown field "prize"; must be one of backend, name, provider, model$/,
    ],
    ['a name with spaces', { a: { ...bedrock, name: 'a b' } }, /^"a"\.name /],
    [
      'too many models',
      Object.fromEntries(Array.from({ length: 1_001 }, (_, i) => [`m${i}`, bedrock])),
      /^must have at most 1000 models; got 1001$/,
    ],
  ])('with %s is refused, and the error names the place', (_, content, error) => {
    expect(() => read(content)).toThrow(error);
  });
});
