import type { Repository } from '../../lib/repositories.ts';

export interface GitConfigOptions {
  readonly endpointUrl: string;
  readonly token: string;
  /** In the order in which the git endpoint counts them. */
  readonly repos: readonly Repository[];
  /** From root to leaf. */
  readonly agent: readonly string[];
}

export type Section = readonly [name: string, settings: Readonly<Record<string, string>>];

/**
 * The configuration of the agent's git in one run: who it is, and the endpoint by which it reaches the repositories of
 * its workspace under the URLs that they have for everybody.
 */
export function gitConfig({ endpointUrl, token, repos, agent }: GitConfigOptions): string {
  const base = endpointUrl.replace(/\/+$/, '');
  return configText([
    ['user', { name: `Muster agent ${agent.join('/')}`, email: 'agent@muster.invalid' }],
    ['push', { default: 'current', autoSetupRemote: 'true' }],
    ['init', { defaultBranch: 'main' }],
    ['advice', { detachedHead: 'false' }],
    ['safe', { directory: '*' }],
    [`http "${base}/"`, { extraHeader: `Authorization: Bearer ${token}`, proxy: '' }],
    ...repos.map(({ shownUrl }, index): Section => [`url "${base}/git/${index}/"`, { insteadOf: shownUrl }]),
  ]);
}

export function configText(sections: readonly Section[]): string {
  return sections
    .map(([name, settings]) =>
      [`[${name}]`, ...Object.entries(settings).map(([key, value]) => `\t${key} = ${quoted(value)}`)].join(
        '\n',
      ),
    )
    .join('\n')
    .concat('\n');
}

const quoted = (value: string): string => `"${value.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n')}"`;
