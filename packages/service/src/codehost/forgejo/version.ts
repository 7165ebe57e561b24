import type { Capabilities } from '../host.ts';

/** How a reply is added to a thread: to the comment, to its review on the same line, or not at all. */
export type Replies = 'comment' | 'review' | 'none';

export interface Version {
  readonly capabilities: Capabilities;
  readonly replies: Replies;
}

/** What a version can do, such as `1.26.0` of Gitea, or `11.0.3+gitea-1.22.0` of Forgejo. */
export function versionOf(text: string): Version {
  const [, major = '0', minor = '0'] = /^v?(\d+)\.(\d+)/.exec(text) ?? [];
  const isForgejo = text.includes('gitea-');
  const isGitea = (least: number) =>
    !isForgejo && (Number(major) > 1 || (major === '1' && Number(minor) >= least));
  const replies = isForgejo && Number(major) >= 7 ? 'review' : isGitea(27) ? 'comment' : 'none';
  return {
    replies,
    capabilities: {
      resolvesThreads: isGitea(26),
      repliesToThreads: replies !== 'none',
      namesAdditions: false,
      readsLogs: false,
    },
  };
}

/** Before it is asked. */
export const unknownVersion: Version = versionOf('');
