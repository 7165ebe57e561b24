import { spawn } from 'node:child_process';
import { MusterError, type StatusName } from '@muster/sdk';
import type { Invocation } from '../invocation.ts';
import { withCode } from '../sign-in-link.ts';

/** The page of an agent, or the front page, with a code that signs you in; the address is printed in any case. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, client, connection, output, signal } = invocation;
  const agent = args[0] as string | undefined;
  const page =
    agent === undefined ? `${connection().url}/` : (await client().status(agent, { signal })).dashboardUrl;
  const code = await codeFor(invocation);
  const url = code === null ? page : withCode(page, code);
  output.answer({ url }, () => output.line(url));
  if (!output.isTerminal) return;
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  spawn(program, [url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref();
}

/** Of a service that knows no codes, and of one that gives this key none. Its page asks for a key. */
const withoutCodes: readonly StatusName[] = ['NOT_FOUND', 'UNIMPLEMENTED', 'PERMISSION_DENIED'];

async function codeFor({ client, signal }: Invocation): Promise<string | null> {
  try {
    return (await client().signInCode({ signal })).code;
  } catch (error) {
    if (error instanceof MusterError && withoutCodes.includes(error.status)) return null;
    throw error;
  }
}
