import type { Sandbox } from '../../packages/service/src/runner/sandbox/bubblewrap.ts';
import { chooseSandbox } from '../../packages/service/src/runner/sandbox/probe.ts';

/** The sandbox of this machine, or null: then a warning says that its tests are skipped. */
export const { sandbox, note } = await chooseSandbox('auto');

if (!sandbox) process.stderr.write(`\n*** TESTS OF THE SANDBOX ARE SKIPPED: ${note}\n\n`);

export const theSandbox = (): Sandbox => {
  if (!sandbox) throw new Error(note);
  return sandbox;
};
