import { describe, expect, it } from 'vitest';
import { type SchemaJob, SchemaWorker } from './schema-worker.ts';

const worker = new SchemaWorker();
const ask = (schema: unknown, job: Omit<SchemaJob, 'schema'> = {}) =>
  worker.run('someone', { schema: typeof schema === 'string' ? schema : JSON.stringify(schema), ...job });
const problemsOf = async (schema: unknown, value: unknown) => {
  const answer = await ask(schema, { value: JSON.stringify(value) });
  return answer.type === 'done' ? answer.problems : answer;
};

describe('SchemaWorker', () => {
  it('returns what is wrong with a value; nothing when it is valid', async () => {
    const schema = { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } };
    expect(await problemsOf(schema, { ok: true })).toEqual([]);
    expect(await problemsOf(schema, { ok: 1 })).toEqual(['/ok must be boolean']);
    expect(await problemsOf(schema, {})).toEqual(["the output must have required property 'ok'"]);
  });

  it('uses draft 2020-12 unless the schema names draft-07', async () => {
    const tuple = [{ type: 'string' }];
    expect(await problemsOf({ prefixItems: tuple }, [1])).not.toEqual([]);
    const draft7 = 'http://json-schema.org/draft-07/schema#';
    expect(await problemsOf({ $schema: draft7, items: tuple }, [1])).not.toEqual([]);
    expect(await problemsOf({ $schema: draft7, items: tuple }, ['a'])).toEqual([]);
  });

  it('refuses what is not a schema', async () => {
    expect(await ask('{')).toMatchObject({ type: 'bad-schema' });
    expect(await ask({ type: 'nothing' })).toMatchObject({ type: 'bad-schema' });
  });

  it('finds a smallest valid value', async () => {
    const schema = { type: 'object', required: ['n'], properties: { n: { type: 'integer', minimum: 3 } } };
    expect(await ask(schema, { sample: true })).toEqual({ type: 'done', problems: [], sample: '{"n":3}' });
    expect(await ask({ type: 'string', pattern: '(?=x)y' }, { sample: true })).toMatchObject({
      sample: undefined,
    });
  });

  it('keeps the ids of different schemas separate', async () => {
    const declaring = (type: string) => ({ $defs: { one: { $id: 'https://example.com/one', type } } });
    expect(await ask(declaring('string'))).toMatchObject({ type: 'done' });
    expect(await ask(declaring('number'))).toMatchObject({ type: 'done' });
  });

  it('ends a pattern that would never end, and continues with a new thread', async () => {
    expect(await problemsOf({ pattern: '^(a+)+$' }, `${'a'.repeat(60)}!`)).toEqual({
      type: 'over-limit',
      message: 'it takes longer than 2000 ms',
    });
    expect(await problemsOf({ type: 'string' }, 'x')).toEqual([]);
  });

  it('ends a job with too many results, or with endless recursion', async () => {
    const manyErrors = { items: { allOf: Array.from({ length: 300 }, () => ({ type: 'string' })) } };
    const numbers = JSON.stringify(Array.from({ length: 20_000 }, () => 1));
    expect(await ask(manyErrors, { value: numbers })).toMatchObject({ type: 'over-limit' });
    expect(await ask({ allOf: [{ $ref: '#' }] }, { value: '1' })).toMatchObject({ type: 'over-limit' });
  });

  it('lets owners take turns, and refuses an owner who has too many jobs waiting', async () => {
    const answered: string[] = [];
    const run = (owner: string) =>
      worker.run(owner, { schema: '{}' }, 3).then(({ type }) => void answered.push(`${owner} ${type}`));
    await Promise.all([run('a'), run('a'), run('a'), run('a'), run('a'), run('b')]);
    expect(answered).toEqual(['a busy', 'a done', 'a done', 'b done', 'a done', 'a done']);
  });
});
