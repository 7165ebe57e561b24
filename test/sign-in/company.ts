import { afterAll, beforeEach } from 'vitest';
import { type Server, startServer } from '../support/server.ts';
import { clientId, type IdentityProvider, startIdentityProvider } from './identity-provider.ts';
import { newTeam, type Team } from './team.ts';

/** A company whose people sign in with its provider: call it at the top of a file. */
export interface Company {
  readonly idp: IdentityProvider;
  readonly server: Server;
  readonly team: Team;
  readonly document: () => Record<string, unknown>;
  readonly newPerson: (claims?: Record<string, unknown>) => IdentityProvider['person'];
}

export async function useCompany(): Promise<Company> {
  const idp = await startIdentityProvider();
  const server = await startServer({ runner: false, env: { MUSTER_ALLOW_INNER_HOSTS: idp.host } });
  afterAll(async () => {
    await server.close();
    await idp.close();
  });
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
      { domain: 'example.com', role: 'viewer' },
    ],
  });
  const team = await newTeam(server, document());
  idp.redirectUris.push(team.callbackUrl);
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
  beforeEach(() => {
    idp.person = newPerson();
  });
  return { idp, server, team, document, newPerson };
}
