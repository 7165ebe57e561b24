import { fileURLToPath } from 'node:url';
import { makeReady } from './ready.mjs';

/** `npm start`: installs and builds what is missing, and becomes the service. */
makeReady();
const program = fileURLToPath(new URL('../packages/service/bin/muster.js', import.meta.url));
process.argv = [process.execPath, program, 'serve', ...process.argv.slice(2)];
await import('../packages/service/bin/muster.js');
