import { describe, expect, it } from 'vitest';
import { accounts, bubblewrapArguments, type Sandbox, type View } from './bubblewrap.ts';

const sandbox: Sandbox = {
  program: '/usr/bin/bwrap',
  uid: 1000,
  gid: 1000,
  forbidsNamespaces: true,
  limitsScratch: true,
  links: [{ path: '/bin', target: 'usr/bin' }],
  reads: ['/usr', '/opt', '/usr/lib/node_modules'],
  masks: ['/proc/keys'],
};

const view = (data: string): View => ({
  folders: { workspaceFolder: `${data}/agents/a/workspace`, homeFolder: `${data}/agents/a/home` },
  hides: [data],
  reads: [`${data}/mirrors`],
  environment: { HOME: `${data}/agents/a/home` },
  scratchMb: 64,
  files: { info: 5, passwd: 6, group: 7, filter: 8 },
});

/** The mounts in their order, as `kind path`. */
function mounts(words: readonly string[]): string[] {
  return words.flatMap((word, at) => {
    if (word === '--ro-bind' || word === '--bind') return [`${word} ${words[at + 2]}`];
    return word === '--tmpfs' || word === '--remount-ro' ? [`${word} ${words[at + 1]}`] : [];
  });
}

describe('bubblewrapArguments', () => {
  it('covers a data folder inside a readable folder, then mounts the permitted parts of it', () => {
    const seen = mounts(bubblewrapArguments(sandbox, view('/opt/muster/data')));
    expect(seen.slice(seen.indexOf('--ro-bind /usr'))).toEqual([
      '--ro-bind /usr',
      '--ro-bind /opt',
      '--tmpfs /opt/muster/data',
      '--ro-bind /opt/muster/data/mirrors',
      '--bind /opt/muster/data/agents/a/workspace',
      '--bind /opt/muster/data/agents/a/home',
      '--remount-ro /opt/muster/data',
      '--remount-ro /',
    ]);
  });

  it('mounts only the permitted parts of a data folder elsewhere', () => {
    const seen = mounts(bubblewrapArguments(sandbox, view('/var/lib/muster')));
    expect(seen.filter((mount) => mount.includes('/var/lib/muster'))).toEqual([
      '--ro-bind /var/lib/muster/mirrors',
      '--bind /var/lib/muster/agents/a/workspace',
      '--bind /var/lib/muster/agents/a/home',
    ]);
  });

  it('makes only the two folders of the agent writable', () => {
    const words = bubblewrapArguments(sandbox, view('/var/lib/muster'));
    expect(words.filter((word) => word === '--bind')).toHaveLength(2);
    expect(words.filter((word) => /^--(dev-)?bind-try$|^--dev-bind$/.test(word))).toEqual([]);
  });
});

it("the user of the agent is named agent, whatever the runner's user is", () => {
  expect(accounts(sandbox, '/home/a').passwd).toMatch(/^agent:x:1000:1000::\/home\/a:/);
});
