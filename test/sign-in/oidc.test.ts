import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Server, startServer } from '../support/server.ts';
import { clientId, type IdentityProvider, startIdentityProvider } from './identity-provider.ts';
import { callerOf, newTeam, signIn, type Team } from './team.ts';

let idp: IdentityProvider;
let server: Server;
let team: Team;

const document = () => ({
  type: 'oidc',
  title: 'Company',
  issuer: idp.issuer,
  clientId,
  clientSecret: { fromSecret: 'client-secret' },
  allow: [{ domain: 'example.com' }, { group: 'guests' }],
  roles: [
    { group: 'platform', role: 'admin' },
    { group: 'developers', role: 'member' },
  ],
});

beforeAll(async () => {
  idp = await startIdentityProvider();
  server = await startServer({ runner: false, env: { MUSTER_ALLOW_INNER_HOSTS: idp.host } });
  team = await newTeam(server, document());
  idp.redirectUris.push(team.callbackUrl);
}, 60_000);

afterAll(async () => {
  await server?.close();
  await idp?.close();
});

let people = 0;
const newPerson = (claims: Record<string, unknown> = {}) => {
  people += 1;
  const name = `ada${people}`;
  return {
    sub: `subject-${people}`,
    preferred_username: name,
    name: `Ada ${people}`,
    email: `${name}@example.com`,
    email_verified: true,
    groups: ['developers'],
    ...claims,
  };
};

describe('a person who signs in', () => {
  test('gets the account and the role that the rules give', async () => {
    idp.person = newPerson();
    const { caller, url } = await signIn(team);
    expect(caller).toMatchObject({
      ownerProvider: 'PROVIDER_IDP_OIDC',
      account: idp.person.preferred_username,
      role: 'member',
      tenant: team.tenant,
    });
    expect(url).toBe(`${server.url}/`);
  });
});
void callerOf;
