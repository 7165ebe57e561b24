import { expect, it } from 'vitest';
import { hostUrlProblem } from './host-url.ts';

it.each([
  ['github', 'https://github.com'],
  ['github', 'http://ghe.example.com:8080/'],
  ['gitlab', 'https://example.com/gitlab'],
  ['forgejo', 'https://git.example.com/api-team'],
  ['forgejo', 'http://127.0.0.1:3000'],
])('%s at %s can be used', (type, url) => expect(hostUrlProblem(type, url)).toBeNull());

it.each([
  ['github', 'git.example.com', 'expected https://git.example.com, with its scheme'],
  ['forgejo', 'localhost:3000', 'expected https://localhost:3000, with its scheme'],
  ['github', 'https://ghe.example.com/api/v3', 'expected https://ghe.example.com, without the path'],
  ['github', 'https://ghe.example.com/api/graphql', 'expected https://ghe.example.com, without the path'],
  ['github', 'https://api.github.com', 'expected https://github.com,'],
  ['github', 'https://github.com/acme', 'expected https://github.com, without a path'],
  ['gitlab', 'https://example.com/gitlab/api/v4/', 'expected https://example.com/gitlab, without the path'],
  ['forgejo', 'https://git.example.com/api/v1', 'expected https://git.example.com, without the path'],
  ['gitlab', 'ssh://git@example.com', 'expected the address that people use'],
  ['gitlab', 'not a URL', 'expected the address that people use'],
  ['gitlab', 'https://', 'expected the address that people use'],
])('%s at %s: %s', (type, url, expected) => expect(hostUrlProblem(type, url)).toContain(expected));

it('a password is not repeated', () => {
  expect(hostUrlProblem('gitlab', 'https://me:hunter22@example.com')).not.toContain('hunter22');
});
