import { type Channel, isSent, type Message, type Target } from './channel.ts';
import { cutTo } from './cut.ts';
import type { Sender } from './sender.ts';

/** Slack's limits, in characters as they are sent. */
const most = { header: 150, section: 3_000, button: 75, url: 3_000 } as const;
/** Of a digest, so that all of it stays below Slack's 50 blocks. */
const mostEntries = 20;
const entryLength = 300;

/** Posts to an incoming webhook of Slack. */
export class SlackChannel implements Channel {
  readonly #sender: Sender;

  constructor(sender: Sender) {
    this.#sender = sender;
  }

  async send(target: Target, message: Message) {
    const url = await this.#sender.url(target);
    const headers = { 'content-type': 'application/json' };
    // 404: the webhook was removed. 410: its channel is archived.
    await this.#sender.post(
      { url, headers, body: JSON.stringify(slackMessage(message)) },
      (status) => status === 410 || status === 404,
    );
    return isSent;
  }

  end = (target: Target, reason: string): Promise<void> => this.#sender.pause(target, reason);
}

/** What agents wrote is escaped and `verbatim`, so that it mentions nobody. */
export function slackMessage({ title, text, url, agent, digest }: Message): object {
  const { agentId } = agent ?? {};
  const lines = (digest?.messages ?? [])
    .slice(0, mostEntries)
    .map(({ title: one, text: rest, url: page }) => {
      const line = [one, rest.trim().split('\n', 1)[0]].filter(Boolean).join(': ');
      const label = escapedTo(line.replaceAll('|', '¦'), entryLength);
      return page.length + entryLength + 3 <= most.section ? `<${escaped(page)}|${label}>` : label;
    });
  const more = digest ? digest.total - lines.length : 0;
  const about = agentId ? [agentId.workspace, agentId.account].filter(Boolean).join(' · ') : '';
  return {
    text: escapedTo([title, text].filter(Boolean).join(': '), most.section),
    parse: 'none',
    link_names: false,
    unfurl_links: false,
    unfurl_media: false,
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: cutTo(title, most.header), emoji: false } },
      ...(text.trim() === '' ? [] : [section(escapedTo(text, most.section))]),
      ...lines.map(section),
      ...(more > 0 ? [section(`${more} more`)] : []),
      ...(about === '' ? [] : [{ type: 'context', elements: [mrkdwn(escapedTo(about, most.section))] }]),
      ...(url.length > most.url
        ? []
        : [{ type: 'actions', elements: [button(agent ? 'Open agent' : 'Open Muster', url)] }]),
    ],
  };
}

const mrkdwn = (text: string) => ({ type: 'mrkdwn', text, verbatim: true });
const section = (text: string) => ({ type: 'section', text: mrkdwn(text) });
const button = (text: string, url: string) => ({
  type: 'button',
  text: { type: 'plain_text', text: cutTo(text, most.button), emoji: false },
  url,
});

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };
const escaped = (text: string): string => text.replace(/[&<>]/g, (character) => entities[character] ?? '');

/** The beginning of a text that is at most so long when it is escaped. */
function escapedTo(text: string, length: number): string {
  let written = 0;
  for (let i = 0; i < text.length; i += 1) {
    written += entities[text[i] ?? '']?.length ?? 1;
    if (written > length - 1) return `${escaped(text.slice(0, i).replace(/[\ud800-\udbff]$/, ''))}…`;
  }
  return escaped(text);
}
