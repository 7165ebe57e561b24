import { repoAt } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { repositoryDigest } from '../lib/repositories.ts';
import { messageId, recordName, repoUrls } from './names.ts';

describe('the name of a record', () => {
  it('has the repository, the number and a digest', () => {
    expect(recordName('github', 'team/project', 7)).toMatch(/^project-7-[0-9a-f]{8}$/);
  });

  it('differs for repositories of the same name, and for integrations', () => {
    const names = [
      recordName('github', 'team/project', 7),
      recordName('github', 'other/project', 7),
      recordName('gitlab', 'team/project', 7),
    ];
    expect(new Set(names).size).toBe(3);
  });

  it('fits, and has only characters of a name', () => {
    expect(recordName('i', `team/${'x'.repeat(300)}`, 2_147_483_647)).toMatch(/^[A-Za-z0-9._-]{128}$/);
    expect(recordName('i', 'team/ä b', 1)).toMatch(/^--b-1-/);
    expect(recordName('i', 'team/', 1)).toMatch(/^repository-1-/);
  });
});

describe('the id of a message', () => {
  it('is the same for the same content only', () => {
    expect(messageId('r', 'review', 'a', 'b')).toBe(messageId('r', 'review', 'a', 'b'));
    expect(messageId('r', 'review', 'a', 'b')).not.toBe(messageId('r', 'review', 'ab'));
  });
});

describe('the repository at a host', () => {
  it.each([
    ['https://github.com', 'https://github.com/team/project.git', 'team/project'],
    ['https://github.com', 'https://github.com/team/project/', 'team/project'],
    ['https://github.com', 'git@github.com:team/project.git', 'team/project'],
    ['https://gitlab.example:8443', 'ssh://git@gitlab.example:2222/a/b/c.git', 'a/b/c'],
    ['https://example.com/git', 'https://example.com/git/team/project', 'team/project'],
    ['http://127.0.0.1:3000', 'http://127.0.0.1:3000/team/project.git', 'team/project'],
  ])('%s has %s as %s', (host, url, path) => {
    expect(repoAt(host, url)).toBe(path);
    // So its workspaces are found.
    expect(repoUrls(host, path).map(repositoryDigest)).toContain(repositoryDigest(url.toUpperCase()));
  });

  it.each([
    ['https://github.com', 'https://gitlab.com/team/project.git'],
    ['https://github.com', 'https://github.com:444/team/project.git'],
    ['https://github.com', '/srv/git/project.git'],
    ['https://github.com', 'https://github.com/project'],
    ['not a url', 'https://github.com/team/project'],
  ])('%s does not have %s', (host, url) => expect(repoAt(host, url)).toBeNull());
});
