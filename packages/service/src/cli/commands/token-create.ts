import type { Role } from '@muster/sdk';
import type { Invocation } from '../invocation.ts';
import { durationMs } from '../times.ts';

interface Flags {
  readonly role?: Role;
  readonly account?: string;
  readonly pool?: string;
  readonly expires?: string;
  readonly justification?: string;
}

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const name = args[0] as string;
  const document = {
    ...(flags.role !== undefined && { role: flags.role }),
    ...(flags.account !== undefined && { account: flags.account }),
    ...(flags.pool !== undefined && { pool: flags.pool }),
    ...(flags.expires !== undefined && {
      expiresAt: new Date(Date.now() + durationMs(flags.expires)).toISOString(),
    }),
  };
  const settings = { ifGenerationMatch: '0', justification: flags.justification, signal };
  const written = await connect().catalog.write('token', name, document, settings);
  output.answer(written, () => {
    output.line(String(written.document.key));
    output.note(`shown this once; muster token revoke ${name} ends it`);
  });
}
