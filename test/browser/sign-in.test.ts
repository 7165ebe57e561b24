/// <reference lib="dom" />
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { clientId, type IdentityProvider, startIdentityProvider } from '../sign-in/identity-provider.ts';
import { newTeam, type Team } from '../sign-in/team.ts';
import { phone } from '../support/browser.ts';
import { startServer } from '../support/server.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('sign-in with a provider', () => {
  let idp: IdentityProvider;
  let team: Team;
  const fixture = browserFixture(async () => {
    idp = await startIdentityProvider();
    return startServer({ runner: false, env: { MUSTER_ALLOW_INNER_HOSTS: idp.host } });
  });

  beforeAll(async () => {
    team = await newTeam(fixture.server, {
      ...{ type: 'oidc', title: 'Company', issuer: idp.issuer, clientId },
      clientSecret: { fromSecret: 'client-secret' },
      allow: [{ domain: 'example.com' }],
      roles: [{ group: 'platform', role: 'admin' }],
      defaultRole: 'member',
    });
    idp.redirectUris.push(team.callbackUrl);
    idp.person = {
      ...{ sub: 'ada-1', preferred_username: 'ada', name: 'Ada' },
      ...{ email: 'ada@example.com', email_verified: true, groups: ['platform'] },
    };
  });

  afterAll(() => idp?.close());

  const signInPath = () => `/sign-in?tenant=codehost_app/${team.tenant.org}`;
  const provider = (page: Page) => page.getByRole('link', { name: 'Sign in with Company' });

  test('a person signs in with the keyboard, sees the page that was asked for, and stays signed in', async () => {
    idp.asks = true;
    const path = `/spend${signInPath().slice('/sign-in'.length)}`;
    const visitor = await fixture.visit({ key: '', path });
    const { page } = visitor;
    await provider(page).focus();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('heading', { name: 'Spend' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/spend');
    await page.reload();
    await page.getByRole('heading', { name: 'Spend' }).waitFor();
    expect(await page.evaluate(() => document.cookie)).toBe('');
    idp.asks = false;
  });

  test('an admin sees the claims that arrived, which rule matched, and whether the provider is set up', async () => {
    const visitor = await fixture.visit({ key: '', path: signInPath() });
    const { page } = visitor;
    await provider(page).click();
    await page.getByRole('button', { name: 'Account' }).waitFor();
    await page.goto(`${fixture.server.url}/catalog/sign-in/company?view=connection`);
    await page.getByText(team.callbackUrl).waitFor();
    const attempt = page.getByRole('list', { name: 'Last sign-ins' }).getByRole('listitem').first();
    await expect.poll(() => attempt.textContent()).toContain('roles[0]: group platform → admin');
    await attempt.getByText('Claims').click();
    await expect.poll(() => attempt.textContent()).toContain('ada@example.com');
    await expect
      .poll(() => page.getByRole('list', { name: 'Checks' }).textContent())
      .toContain('client id and client secret');
    expect(await visitor.accessibilityProblems()).toEqual([]);

    await page.goto(`${fixture.server.url}/settings`);
    const section = page.getByRole('region', { name: 'Sign-in', exact: true });
    await section.getByRole('link', { name: 'company' }).click();
    await expect.poll(() => new URL(page.url()).pathname).toBe('/catalog/sign-in/company');
  });

  test('a refusal says why, once, and leaves the key form usable; also on a phone', async () => {
    const before = idp.person;
    idp.person = { ...before, sub: 'eve', preferred_username: 'eve', email: 'eve@evil.example' };
    const visitor = await fixture.visit({ key: '', path: signInPath(), ...phone });
    const { page } = visitor;
    await provider(page).tap();
    await expect
      .poll(() => page.getByRole('alert').textContent())
      .toContain('none of the groups that may sign in');
    expect(page.url()).not.toContain('refusal');
    await page.getByLabel('Key', { exact: true }).waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.reload();
    await provider(page).waitFor();
    expect(await page.getByRole('alert').count()).toBe(0);
    idp.person = before;
  });
});
