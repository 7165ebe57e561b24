import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import openapiTS, { astToString } from 'openapi-typescript';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';

/** What the service says of itself in `/openapi.json`, taken at its word by tools that know nothing else of it. */
const run = promisify(execFile);
const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly requestBody?: { content: Record<string, { schema: object; example?: unknown }> };
  responses: unknown;
}

type Document = {
  readonly openapi: string;
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: object;
};

let server: SharedServer;
let document: Document;
let folder: string;

beforeAll(async () => {
  server = await sharedServer();
  document = (await (await fetch(`${server.url}/openapi.json`)).json()) as Document;
  folder = mkdtempSync(join(tmpdir(), 'muster-openapi-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await server?.close();
});

test('is valid OpenAPI 3.1', async () => {
  const validator = new Validator();
  expect(await validator.validate(structuredClone(document))).toEqual({ valid: true });
  expect(validator.version).toBe('3.1');
});

test('the validator would have noticed', async () => {
  const broken = structuredClone(document);
  for (const operation of operationsOf(broken)) operation.responses = 'none';
  expect(await new Validator().validate(broken)).toMatchObject({ valid: false });
});

const operationsOf = ({ paths }: Document): Operation[] => Object.values(paths).flatMap(Object.values);

test('every operation has a name of its own, and stands in a chapter', () => {
  const operations = operationsOf(document);
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
  const chapters = document.tags.map(({ name }) => name);
  for (const { operationId, tags } of operations) expect(chapters, operationId).toContain(tags[0]);
});

test('every example fits its schema', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  const examples = operationsOf(document).flatMap(({ operationId, requestBody }) => {
    const { schema, example } = requestBody?.content['application/json'] ?? {};
    return schema && example !== undefined ? [{ operationId, schema, example }] : [];
  });
  expect(examples.length).toBeGreaterThan(15);
  for (const { operationId, schema, example } of examples) {
    const fits = ajv.compile({ ...schema, components: document.components });
    expect(fits(example), `${operationId}: ${ajv.errorsText(fits.errors)}`).toBe(true);
  }
});

test('a client that openapi-typescript made of it runs an agent, from spawn to end', async () => {
  await makeClient();
  const { stdout } = await run(process.execPath, [join(folder, 'main.mjs'), server.url, server.key]);
  expect(JSON.parse(stdout)).toEqual({
    caller: 'admin',
    spawned: 'PHASE_PENDING',
    isRepeatedTheSame: true,
    asked: { reason: 'QUESTION', question: 'Red or blue?', run: 'COMPLETED' },
    removed: true,
    task: 'TASK_STATUS_COMPLETED',
    ended: { phase: 'PHASE_COMPLETED', response: 'Blue.', error: null },
    agents: ['smoke'],
    timeline: expect.arrayContaining(['AGENT_SPAWNED', 'RUN_STARTED', 'QUESTION', 'RUN_ENDED']),
    runs: ['2', '1'],
    streamed: '2',
    written: '1',
    read: { generation: '1', document: expect.objectContaining({ instructions: 'Be terse.' }) },
    history: ['smoke'],
    deleted: '2',
    errors: [
      { status: 404, code: 5, details: [] },
      { status: 400, code: 3, details: ['type.googleapis.com/google.rpc.BadRequest'] },
      { status: 401, code: 16, details: [] },
    ],
  });
});

/** Generates the types, and compiles the program against them: the second fails where the first say less than it needs. */
async function makeClient(): Promise<void> {
  const types = await openapiTS(JSON.stringify(document));
  writeFileSync(join(folder, 'paths.d.ts'), astToString(types));
  copyFileSync(here('smoke/smoke.ts'), join(folder, 'smoke.ts'));
  const [packages = ''] = createRequire(import.meta.url)
    .resolve('openapi-fetch')
    .split('/openapi-fetch/');
  symlinkSync(packages, join(folder, 'node_modules'));
  const write = (name: string, content: unknown): void =>
    writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  write('package.json', { type: 'module' });
  write('tsconfig.json', {
    compilerOptions: {
      strict: true,
      exactOptionalPropertyTypes: true,
      target: 'es2023',
      module: 'nodenext',
      lib: ['es2023', 'dom'],
      types: [],
    },
    files: ['smoke.ts', 'paths.d.ts'],
  });
  write(
    'main.mjs',
    `import { smoke } from './smoke.js';
     process.stdout.write(JSON.stringify(await smoke(...process.argv.slice(2))));`,
  );
  const compiler = here('../../node_modules/typescript/bin/tsc');
  await run(process.execPath, [compiler, '-p', folder]).catch(({ stdout }: { stdout: string }) => {
    throw new Error(stdout);
  });
}
