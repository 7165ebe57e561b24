import type { Repository } from '../../lib/repositories.ts';

export interface GitConfigOptions {
  readonly doorUrl: string;
  readonly token: string;
  /** In the order in which the git door counts them. */
  readonly repos: readonly Repository[];
  /** From root to leaf. */
  readonly agent: readonly string[];
}

export type Section = readonly [name: string, settings: Readonly<Record<string, string>>];

/**
 * The configuration of the agent's git in one run: who it is, and the door by which it reaches the repositories of
 * its workspace under the URLs that they have for everybody.
 */
export function gitConfig({ doorUrl, token, repos, agent }: GitConfigOptions): string {
  const door = doorUrl.replace(/\/+$/, '');
  return configText([
    ['user', { name: `Muster agent ${agent.join('/')}`, email: 'agent@muster.invalid' }],
    ['push', { default: 'current', autoSetupRemote: 'true' }],
    ['init', { defaultBranch: 'main' }],
    ['advice', { detachedHead: 'false' }],
    ['safe', { directory: '*' }],
    [`http "${door}/"`, { extraHeader: `Authorization: Bearer ${token}`, proxy: '' }],
    ...repos.map(({ shownUrl }, index): Section => [`url "${door}/git/${index}/"`, { insteadOf: shownUrl }]),
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
