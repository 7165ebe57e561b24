import type { HostRule } from '../lib/host-rules.ts';
import type { ParseReply } from '../work/host-json.ts';
import { forgejoDeliveries } from './forgejo/deliveries.ts';
import { ForgejoHost } from './forgejo/host.ts';
import { githubDeliveries } from './github/deliveries.ts';
import { GithubHost } from './github/host.ts';
import { gitlabDeliveries } from './gitlab/deliveries.ts';
import { GitlabHost } from './gitlab/host.ts';
import type { DeliveryReader, Host, HostType } from './host.ts';

/** The credential of an integration: a token, or an app of GitHub. */
export type Credential = { readonly token: string } | { readonly appId: string; readonly privateKey: string };

export interface HostOptions {
  readonly url: string;
  readonly credential: Credential;
  /** Hosts that may have an address of an internal network. */
  readonly innerHosts: readonly HostRule[];
  readonly signal: AbortSignal;
  /** Parses a reply. */
  readonly parse: ParseReply;
}

export const readers: Readonly<Record<HostType, DeliveryReader>> = {
  github: githubDeliveries,
  gitlab: gitlabDeliveries,
  forgejo: forgejoDeliveries,
};

/** Only GitHub has apps: an integration with another host has a token. */
export function openHost(type: HostType, { credential, ...options }: HostOptions): Host {
  if (type === 'github') return new GithubHost({ ...options, credential });
  const { token } = credential as { readonly token: string };
  return type === 'gitlab' ? new GitlabHost({ ...options, token }) : new ForgejoHost({ ...options, token });
}
