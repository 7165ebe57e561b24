import { providerName } from '@muster/sdk/contract';
import type { Invocation } from '../invocation.ts';

export async function run({ client, connection, output, signal }: Invocation): Promise<void> {
  const caller = await client().whoami({ signal });
  output.answer(caller, () => {
    const { url, source } = connection();
    const until = caller.expiresAt ? `, until ${caller.expiresAt}` : '';
    output.line(
      `${caller.account} (${caller.role}) of ${providerName(caller.tenant.provider)}/${caller.tenant.org}${until}`,
    );
    output.note(`at ${url}, found by ${source}`);
  });
}
