import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EmailChannel } from '../../packages/service/src/notify/email.ts';
import type { Sender } from '../../packages/service/src/notify/sender.ts';
import { until } from '../support/async.ts';
import { readDocument, uniqueName, writeResource } from '../support/catalog.ts';
import { Mailbox } from './mailbox.ts';
import { aMessage, messages } from './messages.ts';
import { spawn, startNotifying, untilDeliveries, writeNotification } from './notify-scenario.ts';

let mailbox: Mailbox;
let started: Awaited<ReturnType<typeof startNotifying>>;
beforeAll(async () => {
  mailbox = await Mailbox.start();
  started = await startNotifying({
    env: { MUSTER_SMTP_URL: mailbox.url, MUSTER_MAIL_FROM: 'Muster <muster@example.com>' },
  });
});
afterAll(async () => {
  await started.close();
  await mailbox.close();
});

async function notifying(fields: Record<string, unknown> = {}) {
  const { api } = started;
  const name = uniqueName('mail');
  const to = `${name}@example.com`;
  const events = ['agent.needs_input', 'agent.completed'];
  await writeNotification(api, name, { to: [to], workspace: name, events, ...fields });
  return {
    ...{ name, to },
    spawn: (text: string) => spawn(api, text, name),
    mails: (count: number) =>
      until(
        `mail to ${to}`,
        async () => mailbox.received.filter((one) => one.to.includes(to)),
        (found) => found.length >= count,
      ),
  };
}

test('a question arrives as mail with a text, HTML and a link that opens the agent', async () => {
  const { name, to, mails, ...notification } = await notifying();
  const { agent } = await notification.spawn('!ask Is <b>bold</b> & "this" right?');
  const [received] = await mails(1);
  const { mail, from } = received ?? expect.unreachable();
  expect(from).toBe('muster@example.com');
  expect(mail.from?.text).toBe('"Muster" <muster@example.com>');
  expect(mail.to).toMatchObject({ text: to });
  expect(mail.subject).toBe(`[${name}] ${agent.join('/')}`);
  const page = expect.stringMatching(new RegExp(`${started.api.url}/agents/.*/${agent[0]}`));
  expect(mail.text).toEqual(page);
  expect(mail.text).toContain(`${agent[0]} needs input`);
  expect(mail.text).toContain('Is <b>bold</b> & "this" right?');
  expect(mail.html).toEqual(page);
  expect(mail.html).toContain('Is &lt;b&gt;bold&lt;/b&gt; &amp; &quot;this&quot; right?');
  expect(mail.headers.get('auto-submitted')).toBe('auto-generated');
  expect(mail.headers.has('list')).toBe(false);
});

test('the messages about one agent are one thread, and those about another one are another', async () => {
  const { name, mails, ...notification } = await notifying();
  const { agent } = await notification.spawn('!ask First?');
  await mails(1);
  await started.api.post('/v1/agent/queue', {
    agentId: { agent, workspace: name },
    description: '!finish Done.',
  });
  await mails(2);
  await notification.spawn('!ask Another?');
  const [first, second, other] = (await mails(3)).map(({ mail }) => mail);
  expect(second?.subject).toBe(first?.subject);
  expect(first?.inReplyTo).toMatch(/^<agent-.*@example\.com>$/);
  expect(second?.inReplyTo).toBe(first?.inReplyTo);
  expect(second?.references).toBe(first?.references);
  expect(second?.messageId).not.toBe(first?.messageId);
  expect(other?.inReplyTo).not.toBe(first?.inReplyTo);
});

describe('a personal notification', () => {
  const linkIn = (source: string) => {
    const unfolded = source.replace(/\r\n[ \t]+/g, ' ');
    return /^List-Unsubscribe: <([^>]+)>/m.exec(unfolded)?.[1] ?? '';
  };

  test('is ended by a POST to its link, and not by a GET', async () => {
    const { api } = started;
    const { name, mails, ...notification } = await notifying({ account: 'admin' });
    await notification.spawn('!ask Personal?');
    const [received] = await mails(1);
    const { mail, source } = received ?? expect.unreachable();
    expect(source).toContain('List-Unsubscribe-Post: List-Unsubscribe=One-Click');
    const link = linkIn(source);
    expect(mail.text).toContain(link);
    const page = await fetch(link);
    expect(page.status).toBe(200);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(await page.text()).toContain('<form method="post">');
    const paused = async () => (await readDocument(api, 'notification', name)).document.paused;
    expect(await paused()).toBeUndefined();
    for (const wrong of [
      `${link}x`,
      link.replace(name, 'other'),
      link.replace('/unsubscribe/1/', '/unsubscribe/2/'),
    ]) {
      expect((await fetch(wrong)).status).toBe(404);
      expect((await fetch(wrong, { method: 'POST' })).status).toBe(404);
    }
    expect(await paused()).toBeUndefined();
    const body = new URLSearchParams({ 'List-Unsubscribe': 'One-Click' });
    expect((await fetch(link, { method: 'POST', body })).status).toBe(200);
    expect(await paused()).toBe(true);
    const { document } = await readDocument(api, 'notification', name);
    expect(document.pausedReason).toContain('link in a mail');
    // Another notification of this name.
    await writeResource(api, 'notification', name, { to: ['other@example.com'], account: 'admin' });
    expect((await fetch(link, { method: 'POST', body })).status).toBe(404);
  });
});

test('an address that the mail server refuses fails immediately, and one that it postpones is tried again', async () => {
  const { api } = started;
  const refused = await notifying();
  mailbox.refused.set(refused.to, 550);
  await refused.spawn('!ask Refused?');
  const [delivery] = await untilDeliveries(api, refused.name, ([one]) => one?.state === 'FAILED');
  expect(delivery?.error).toMatch(/^mail: .*550/);
  const later = await notifying();
  mailbox.refused.set(later.to, 451);
  await later.spawn('!ask Later?');
  await untilDeliveries(api, later.name, ([one]) => one?.state === 'SENDING' && one.error.includes('451'));
  mailbox.refused.delete(later.to);
  await later.mails(1);
});

test('one of several addresses that is refused is named', async () => {
  const { api } = started;
  const { name, ...notification } = await notifying({ to: ['good@example.com', 'bad@example.com'] });
  mailbox.refused.set('bad@example.com', 550);
  await notification.spawn('!ask Both?');
  const [delivery] = await untilDeliveries(api, name, ([one]) => one?.state === 'SENT');
  expect(delivery?.error).toBe('the mail server refused bad@example.com');
});

test('texts of agents add no header, recipient or part', async () => {
  const evil = 'a\r\nBcc: eve@example.com\r\n\r\n--boundary\r\nContent-Type: text/html\r\n\r\n<script>';
  const message = aMessage({
    ...{ title: evil, text: evil, url: 'https://muster.example.com/"><script>' },
    digest: { total: 3, counts: [['agent.failed', 3]], messages: messages(2, evil) },
    agent: null,
    type: 'digest',
  });
  const channel = new EmailChannel({
    mail: { url: mailbox.url, from: 'muster@example.com' },
    sender: {} as Sender,
    unsubscribeUrl: async () => '',
  });
  const settings = { to: ['header@example.com'] };
  await channel.send({ tenant: 1, name: 'mail', type: 'email', account: '', settings }, message);
  const { mail, to } =
    mailbox.received.find((one) => one.to.includes('header@example.com')) ?? expect.unreachable();
  expect(to).toEqual(['header@example.com']);
  expect(mail.headers.has('bcc')).toBe(false);
  expect(mail.attachments).toEqual([]);
  expect(mail.subject).toContain('Bcc: eve@example.com');
  expect(mail.html).not.toMatch(/<script/);
});
