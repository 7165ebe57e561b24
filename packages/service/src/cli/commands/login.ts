import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { MusterClient } from '@muster/sdk';
import { type Login, loginFile, refuseUnusable } from '../connection.ts';
import { withoutSlash } from '../environment.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { asked } from '../prompt.ts';
import { pipedText } from '../settings.ts';

interface Flags {
  readonly keyStdin?: boolean;
  readonly forget?: boolean;
}

/** Remembers where a service is and a key of it, once the service has taken the key. */
export async function run({ flags, output, env, signal }: Invocation<Flags>): Promise<void> {
  const file = loginFile(env);
  if (flags.forget) {
    rmSync(file, { force: true });
    output.note(`${file} is forgotten`);
    return;
  }
  const url = withoutSlash(flags.url || env.MUSTER_URL || 'http://127.0.0.1:8420');
  const otherwise = '--key-stdin reads the key from standard input';
  const typed = flags.keyStdin
    ? await pipedText(signal)
    : env.MUSTER_API_KEY || (await asked(`Key for ${url}: `, signal, { otherwise, isSecret: true }));
  const login: Login = { url, apiKey: typed.trim() };
  if (login.apiKey === '') throw new CommandError('no key was given', exitCodes.usage);
  refuseUnusable(login);
  const caller = await new MusterClient({ ...login, retries: { tries: 1 } }).whoami({ signal });
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  writeFileSync(file, `${JSON.stringify(login)}\n`, { mode: 0o600 });
  output.answer(caller, () => output.line(`${caller.account} (${caller.role}) at ${url}`));
}
