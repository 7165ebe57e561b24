import { readConfig } from '../config.ts';
import { findConnection } from '../connection.ts';
import type { Invocation } from '../invocation.ts';

/** What is in force here: for the command line, and for a service that would be started now. No secret is shown. */
export async function run({ flags, env, output }: Invocation): Promise<void> {
  const { bootstrap, secret, databaseUrl, runner, ...service } = readConfig(env);
  const config = {
    client: clientConfig(flags.url, env),
    service: {
      ...service,
      databaseUrl: databaseUrl === null ? 'embedded' : withoutPassword(databaseUrl),
      secret: secret === null ? 'in the data folder' : 'MUSTER_SECRET',
      bootstrap: {
        org: bootstrap.org,
        account: bootstrap.account,
        key: bootstrap.key ? 'MUSTER_BOOTSTRAP_KEY' : 'minted',
      },
    },
    runner: runner && { ...runner, prices: env.MUSTER_PRICES || 'built in' },
    providers: {
      anthropic: env.ANTHROPIC_API_KEY ? (env.ANTHROPIC_BASE_URL ?? 'https://api.anthropic.com') : 'no key',
      openai: env.OPENAI_API_KEY ? (env.OPENAI_BASE_URL ?? 'https://api.openai.com/v1') : 'no key',
    },
  };
  output.answer(config, () => {
    for (const [room, values] of Object.entries(config)) {
      output.line(output.paint('bold', room));
      for (const [name, value] of Object.entries(values ?? {}))
        output.line(
          `  ${name.padEnd(14)}${typeof value === 'object' ? JSON.stringify(value) : String(value)}`,
        );
    }
  });
}

function clientConfig(url: string | undefined, env: NodeJS.ProcessEnv): Record<string, string> {
  try {
    const connection = findConnection({ url }, env, process.cwd());
    return { url: connection.url, source: connection.source };
  } catch (error) {
    return { url: 'none', source: (error as Error).message };
  }
}

function withoutPassword(text: string): string {
  if (!URL.canParse(text)) return 'DATABASE_URL';
  const url = new URL(text);
  if (url.password) url.password = '…';
  return String(url);
}
